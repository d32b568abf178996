"""The generated operations of the vendor's plugin about programs themselves."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.ops import internal_ops
from ipu_tf.ops.functions.stateful_accumulation import ipu_stateful_gradient_accumulate
from ipu_tf.ops.kernels import replica_context

__all__ = (
    "device_sync",
    "ipu_print_tensor",
    "ipu_remap",
    "ipu_remap_deduce",
    "ipu_replication_normalise",
    "ipu_stateful_gradient_accumulate",
)

ipu_remap = internal_ops.remap
ipu_remap_deduce = internal_ops.remap_deduce


@tf.autograph.experimental.do_not_convert
def ipu_print_tensor(
    input: tf.Tensor, tensor_name: str = "", name: str | None = None
) -> tf.Operation | None:
    """Prints a tensor on the standard error of the host.

    Args:
        input: A tensor.
        tensor_name: Printed before the values.
        name: Has no effect here.
    """
    del name
    return internal_ops.print_tensor(input, tensor_name)


@tf.autograph.experimental.do_not_convert
def ipu_replication_normalise(input: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns `input` divided by the number of replicas of the program.

    Args:
        input: A tensor.
        name: Name of the operation.
    """
    input = tf.convert_to_tensor(input)
    count = tf.constant(replica_context.num_replicas(), input.dtype)
    return tf.divide(input, count, name=name)


@tf.autograph.experimental.do_not_convert
def device_sync(name: str | None = None) -> tf.Operation:
    """Returns an operation that does nothing: programs end before their calls return.

    Args:
        name: Name of the operation.
    """
    return tf.no_op(name)
