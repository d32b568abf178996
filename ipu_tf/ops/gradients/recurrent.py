"""Gradients of the joined loops of recurrent layers.

A tape needs them if it records a function that was traced, and joined, before. They are those of
the ops that were joined. Importing this module registers them with TensorFlow.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.ops.kernels.chains import TracedChain
from ipu_tf.ops.kernels.joined_ops import JOINED


@tf.RegisterGradient("IpuGru")
@tf.RegisterGradient("IpuGruGrad")
@tf.RegisterGradient("IpuLstm")
@tf.RegisterGradient("IpuLstmGrad")
def _of_chain(op: tf.Operation, *gradients: tf.Tensor) -> list[tf.Tensor]:
    inputs = [tf.identity(each) for each in op.inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        results = TracedChain(op, inputs).run(JOINED[op.type])
    return tape.gradient(results, inputs, list(gradients), tf.UnconnectedGradients.ZERO)
