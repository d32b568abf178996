"""The number of the replica that runs a program."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.ops.kernels import replica_context


@tf.autograph.experimental.do_not_convert
def replication_index(name: str | None = None) -> tf.Tensor:
    """Returns the number of the replica that runs the program, from 0: an int32 scalar.

    Args:
        name: Name of the operation.
    """
    return tf.identity(replica_context.replica_index(), name=name or "replication_index")
