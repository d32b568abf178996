"""Gradients of joined loops of recurrent layers, and of other joined chains.

A tape needs them if it records a function that was traced, and joined, before. They are those of
the ops that were joined. Importing this module registers them with TensorFlow.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.ops.kernels.chains import TracedChain
from ipu_tf.ops.kernels.joined_ops import JOINED


@tf.RegisterGradient("IpuAdamUpdate")
@tf.RegisterGradient("IpuBiasAddGrad")
@tf.RegisterGradient("IpuColumnSums")
@tf.RegisterGradient("IpuConv2DBackpropInputFused")
@tf.RegisterGradient("IpuConv2DReluGrad")
@tf.RegisterGradient("IpuGatherRows")
@tf.RegisterGradient("IpuGatherSegmentSum")
@tf.RegisterGradient("IpuGelu")
@tf.RegisterGradient("IpuGeluGrad")
@tf.RegisterGradient("IpuGru")
@tf.RegisterGradient("IpuGruGrad")
@tf.RegisterGradient("IpuLayerNorm")
@tf.RegisterGradient("IpuLayerNormGrad")
@tf.RegisterGradient("IpuLstm")
@tf.RegisterGradient("IpuLstmGrad")
@tf.RegisterGradient("IpuMatMulFused")
@tf.RegisterGradient("IpuMatMulUpdate")
@tf.RegisterGradient("IpuRelu6Grad")
@tf.RegisterGradient("IpuReshapedMatMulBias")
@tf.RegisterGradient("IpuScaleShift")
@tf.RegisterGradient("IpuScaleShiftAdd")
@tf.RegisterGradient("IpuScaledUpdate")
@tf.RegisterGradient("IpuSegmentSum")
@tf.RegisterGradient("IpuSoftmax")
@tf.RegisterGradient("IpuSoftmaxDropout")
@tf.RegisterGradient("IpuSoftmaxDropoutGrad")
@tf.RegisterGradient("IpuSwapRows")
@tf.RegisterGradient("IpuTreeSum")
def _of_chain(op: tf.Operation, *gradients: tf.Tensor) -> list[tf.Tensor | None]:
    inputs = [tf.identity(each) for each in op.inputs]
    floats = [each for each in inputs if each.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        results = TracedChain(op, inputs).run(JOINED[op.type])
    by_input = iter(tape.gradient(results, floats, list(gradients), tf.UnconnectedGradients.ZERO))
    return [next(by_input) if each.dtype.is_floating else None for each in inputs]
