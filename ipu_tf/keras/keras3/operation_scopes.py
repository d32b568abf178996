"""Scopes of the operations of functional models."""

from __future__ import annotations

from collections.abc import Callable

import keras

from ipu_tf.internals.structures import TensorStructure


def in_own_scope(
    operation: keras.Operation, call: Callable[..., TensorStructure]
) -> Callable[..., TensorStructure]:
    """Returns a call of an operation, in a scope of its name unless it is a layer, which has one.

    Keras opens no scope for operations such as `x + y` in a functional model.

    Args:
        operation: A Keras operation.
        call: The function that calls it.
    """
    if isinstance(operation, keras.Layer):
        return call

    def call_in_scope(*args: TensorStructure, **kwargs: TensorStructure) -> TensorStructure:
        # Keras builds the layers of functional models at top level, too, not in the model's scope.
        with keras.name_scope(operation.name, override_parent=""):
            return call(*args, **kwargs)

    return call_in_scope
