"""Modules and names that Keras 3 moved or lacks; `modules_of_keras.toml` lists them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.compat.keras2.names import absent, given, moved, of_both, of_python_module
from ipu_tf.compat.keras2.tensorflow_ops import TFOpLambda
from ipu_tf.compat.spellings.spelling import Provider, Spelling
from ipu_tf.internals.keras import KerasFunctionLoss, KerasGetItem
from ipu_tf.internals.tensorflow import tf_inspect

_STOCK_ROWS = keras.utils.to_categorical


class _IsSparse(type):
    """The type of a class whose instances are the sparse symbolic tensors."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, keras.KerasTensor) and instance.sparse


class SparseKerasTensor(metaclass=_IsSparse):
    """The class of sparse symbolic tensors, which are tensors with an attribute in Keras 3."""


def _policy(name: str, loss_scale: Any = "auto") -> keras.DTypePolicy:
    """Returns a policy; the loss scale of Keras 2's was a part of it.

    Raises:
        ValueError: It has a fixed loss scale.
    """
    if loss_scale not in ("auto", "dynamic", None):
        raise ValueError(
            f"A policy of Keras 3 has no loss scale. Received: Policy({name!r}, "
            f"loss_scale={loss_scale!r}). Give the optimizer `loss_scale_factor={loss_scale!r}`."
        )
    return keras.DTypePolicy(name)


def _set_policy(policy: Any) -> None:
    """Sets the policy of the layers that are made from now on."""
    keras.mixed_precision.set_global_policy(policy)


def _synchronized_norm(*args: Any, **kwargs: Any) -> keras.Layer:
    """Returns a batch norm over the batches of all replicas."""
    return keras.layers.BatchNormalization(*args, synchronized=True, **kwargs)


def _to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> np.ndarray:
    """Returns rows of zeros with a one at each class."""
    rows: np.ndarray = _STOCK_ROWS(y, num_classes)
    return rows.astype(dtype)


GIVEN: Mapping[str, Any] = {
    "IndexLookup": keras.layers.StringLookup.__base__,
    "LossFunctionWrapper": KerasFunctionLoss,
    "Policy": _policy,
    "RandomHeight": tf.keras.layers.RandomHeight,
    "RandomWidth": tf.keras.layers.RandomWidth,
    "ReductionV2": tf.keras.losses.Reduction,
    "SlicingOpLambda": KerasGetItem,
    "SparseKerasTensor": SparseKerasTensor,
    "SyncBatchNormalization": _synchronized_norm,
    "TFOpLambda": TFOpLambda,
    "set_policy": _set_policy,
    "terminate_keras_multiprocessing_pools": lambda *args, **kwargs: None,
    "to_categorical": _to_categorical,
}
"""What has other names in Keras 3, or is written here."""


def _names(row: Mapping[str, Any]) -> dict[str, Provider]:
    """Returns the names that a row of the file gives to its modules."""
    found = of_both(row["all_of"]) if "all_of" in row else {}
    found |= {name: given(GIVEN[name]) for name in row.get("given", ())}
    found |= moved(**row.get("moved", {}))
    for names in row.get("absent", ()):
        found |= absent(**names)
    return found


def _spelling(modules: list[Mapping[str, Any]], **fields: Any) -> Spelling:
    """Returns a spelling of the file."""
    names = {module: _names(row) for row in modules for module in row["modules"]}
    return Spelling(names=MappingProxyType(names), **fields)


_TABLE = tomllib.loads(resources.files(__package__).joinpath("modules_of_keras.toml").read_text())

SPELLINGS = (
    *(_spelling(**one) for one in _TABLE["spellings"]),
    Spelling(
        name="`keras.utils.tf_inspect`",
        keras_2="TensorFlow's functions that inspect signatures.",
        here="It has TensorFlow's functions.",
        names=MappingProxyType({"utils.tf_inspect": of_python_module(tf_inspect)}),
    ),
)
