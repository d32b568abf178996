"""The order of operations."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure


@tf.autograph.experimental.do_not_convert
def barrier(
    tensors: TensorStructure, insert_barrier_for_gradients: bool = False, name: str | None = None
) -> TensorStructure:
    """Returns the tensors, each of which is there once all of them are.

    Args:
        tensors: A structure of tensors.
        insert_barrier_for_gradients: Whether their gradients wait for each other, too.
        name: Name scope of the operations.
    """
    flat = [tf.convert_to_tensor(tensor) for tensor in tf.nest.flatten(tensors)]
    with tf.name_scope(name or "barrier"):
        outputs = _with_gradient_barrier(*flat) if insert_barrier_for_gradients else _after(*flat)
    return tf.nest.pack_sequence_as(tensors, outputs)


def _after(*tensors: tf.Tensor) -> list[tf.Tensor]:
    with tf.control_dependencies(tensors):
        return [tf.identity(tensor) for tensor in tensors]


@tf.custom_gradient
def _with_gradient_barrier(*tensors: tf.Tensor) -> Any:
    return _after(*tensors), lambda *gradients: _after(*gradients)
