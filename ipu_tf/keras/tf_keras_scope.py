"""The scope of a strategy for models of tf_keras, if there may be any."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator

from ipu_tf.strategy import IPUStrategyV1, extend_scopes

_CHOICES = ("1", "true")
"""The values of TF_USE_LEGACY_KERAS, in lower case, by which `tf.keras` is tf_keras."""


@extend_scopes
@contextlib.contextmanager
def scope(strategy: IPUStrategyV1) -> Iterator[None]:
    """Turns models of tf_keras into IPU models if it is loaded, or if `tf.keras` is going to be it.

    Args:
        strategy: The strategy whose scope is entered.
    """
    del strategy
    if not _may_be_used():
        yield
        return
    # Importing it loads tf_keras.
    construction = importlib.import_module("ipu_tf.keras.tf_keras.construction")
    with construction.converting():
        yield


def _may_be_used() -> bool:
    if "tf_keras" in sys.modules:
        return True
    is_chosen = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in _CHOICES
    return is_chosen and importlib.util.find_spec("tf_keras") is not None
