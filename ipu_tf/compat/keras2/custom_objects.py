"""Custom objects that scripts of Keras 2 name by strings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2.spelling import Notify, Spelling
from ipu_tf.internals import patches
from ipu_tf.internals.patches import Wrap


class _WithCustomObjects(dict[str, Any]):
    """A table of Keras' own objects that looks a name up among the custom ones first."""

    def __init__(self, stock: Mapping[str, Any], notify: Notify) -> None:
        super().__init__(stock)
        self._notify = notify

    def get(self, key: str, default: Any = None) -> Any:
        custom = keras.saving.get_registered_object(key)
        if custom is None:
            return super().get(key, default)
        self._notify()
        return custom


def _with_custom_objects(notify: Notify) -> Wrap:
    return lambda stock: _WithCustomObjects(stock, notify)


SPELLINGS = (
    Spelling(
        name='`get_custom_objects()["mine"] = function`, then `activation="mine"`, `loss="mine"`, '
        '`metrics=["mine"]`, `kernel_regularizer="mine"`, `kernel_constraint="mine"`',
        keras_2="The string was the custom object of that name.",
        here="It is; Keras 3 alone looks among its own objects.",
        wraps=MappingProxyType(dict.fromkeys(patches.IDENTIFIERS, _with_custom_objects)),
    ),
)
