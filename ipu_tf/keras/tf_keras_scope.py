"""The scope of a strategy for models of tf_keras, if there may be any."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

from ipu_tf.internals.keras_choice import may_use_tf_keras
from ipu_tf.strategy import IPUStrategyV1, extend_scopes


@extend_scopes
@contextlib.contextmanager
def scope(strategy: IPUStrategyV1) -> Iterator[None]:
    """Turns models of tf_keras into IPU models if it is loaded, or if `tf.keras` is going to be it.

    Args:
        strategy: The strategy whose scope is entered.
    """
    del strategy
    if not may_use_tf_keras():
        yield
        return
    # Importing it loads tf_keras.
    construction = importlib.import_module("ipu_tf.keras.tf_keras.construction")
    with construction.converting():
        yield
