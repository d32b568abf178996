"""The table of joined ops: the stock ops that each of them stands for.

A joined op does the work of a chain of ops in one pass on the host. The machine has no such op: it
runs the chain. So if the compiler meets a joined op, as in a function that was traced for one
program and is called by another, it reads the chain instead: the ops that were joined, if the
function still holds them, else the ops that this table lists. Gradients, which create joined ops
directly, and functions that were pruned do not hold them.

A new joined op needs an entry in `JOINED`; a test compares the table with the library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import tensorflow as tf

from ipu_tf.internals.graphs import set_op_attribute
from ipu_tf.internals.tensorflow import NodeDef
from ipu_tf.ops.kernels import joined_loops
from ipu_tf.ops.kernels.chains import Chain, Expand
from ipu_tf.processes.reduction_tree import reduced

_REPLACES = "_ipu_tf_replaces_"
"""Attributes of a joined op, by the number of an output: the name of the tensor it replaces. Those
that begin with an underscore may be set on any op, and are kept in files."""


_BYPASSED = "_ipu_tf_bypassed_"
"""Attributes of a loop that does not iterate since joined ops do its work, by the number of an
input: the name of the tensor that it read."""


def note_replaced(tensor: tf.Tensor | None, by: tf.Tensor) -> None:
    """Records on a joined op which tensor one of its outputs replaces.

    Args:
        tensor: The tensor; its op stays in the graph. None for a value that only joined ops read.
        by: The output.
    """
    name = tf.compat.v1.AttrValue(s=b"" if tensor is None else tensor.name.encode())
    set_op_attribute(by.op, f"{_REPLACES}{by.value_index}", name)


def note_bypassed(op: tf.Operation, index: int) -> None:
    """Records which tensor an op reads, before it is made to read another."""
    name = tf.compat.v1.AttrValue(s=op.inputs[index].name.encode())
    set_op_attribute(op, f"{_BYPASSED}{index}", name)


def bypassed(node: NodeDef) -> dict[int, str]:
    """Returns the tensors that an op read before it was made to read others, by their places."""
    attributes = {key: value for key, value in node.attr.items() if key.startswith(_BYPASSED)}
    return {int(key.removeprefix(_BYPASSED)): name.s.decode() for key, name in attributes.items()}


def replaced(node: NodeDef, index: int) -> str | None:
    """Returns the name of the tensor that a joined op's output replaces, None if unknown.

    The name is "" where only joined ops read the output.

    Args:
        node: NodeDef of the joined op.
        index: Number of the output.
    """
    key = f"{_REPLACES}{index}"
    return node.attr[key].s.decode() if key in node.attr else None


def expand(node: NodeDef) -> tuple[list[NodeDef], list[str]]:
    """Returns the stock ops of a joined op, and its outputs among theirs.

    The last one has the name of the joined op, so ops that wait for it wait for the chain.

    Args:
        node: NodeDef of an op of a type in `JOINED`.
    """
    chain = Chain(node)
    outputs = JOINED[node.op](chain)
    last = chain.nodes[-1]
    prefix = f"{last.name}:"
    last.name = node.name
    return chain.nodes, [
        f"{node.name}:{name.removeprefix(prefix)}" if name.startswith(prefix) else name
        for name in outputs
    ]


def _with_bias(product: str) -> Expand:
    def expand_biased(chain: Chain) -> Sequence[str]:
        *operands, bias = chain.inputs
        result = chain.add("BiasAdd", chain.add(product, *operands), bias)
        return [chain.add("Relu", result) if chain.attribute("relu").b else result]

    return expand_biased


def _reshaped_matmul_with_bias(chain: Chain) -> Sequence[str]:
    x, y, bias = chain.inputs
    adjoint = {name: chain.attribute(name).b for name in ("adj_x", "adj_y")}
    shape = chain.constant(tf.TensorShape(chain.attribute("shape").shape).as_list(), tf.int32)
    product = chain.add("BatchMatMulV2", x, y, **adjoint)
    result = chain.add("AddV2", chain.add("Reshape", product, shape, Tshape=tf.int32), bias)
    return [chain.add("Relu", result) if chain.attribute("relu").b else result]


def _transposed_matmul(chain: Chain) -> Sequence[str]:
    return [chain.add("Einsum", *chain.inputs)]


def _filter_and_bias_gradients(chain: Chain) -> Sequence[str]:
    of_filter = chain.add("Conv2DBackpropFilter", *chain.inputs)
    return [of_filter, chain.add("BiasAddGrad", chain.inputs[2])]


def _input_gradient(chain: Chain) -> Sequence[str]:
    sizes, kernel, dy, *others = chain.inputs
    result = _part(chain, chain.add("Conv2DBackpropInput", sizes, kernel, dy), "channel", rank=4)
    if chain.attribute("biases").i:
        result = chain.add("BiasAdd", result, others.pop(0))
    if chain.attribute("relu").b:
        result = chain.add("Relu", result)
    return [_sum_before_relu(chain, result, others)]


def _product_gradient(chain: Chain) -> Sequence[str]:
    a, b, *others = chain.inputs
    transposed = {name: chain.attribute(name).b for name in ("transpose_a", "transpose_b")}
    product = chain.add("MatMul", a, b, **transposed)
    return [_sum_before_relu(chain, _part(chain, product, "column", rank=2), others)]


def _part(chain: Chain, whole: str, name: str, *, rank: int) -> str:
    """Adds a slice of the last dimension if the op is of a part of its channels or columns."""
    size = chain.attribute(f"{name}s").i
    if size == 0:
        return whole
    first = [0] * (rank - 1) + [chain.attribute(f"first_{name}").i]
    begin, sizes = (chain.constant(each, tf.int32) for each in (first, [-1] * (rank - 1) + [size]))
    return chain.add("Slice", whole, begin, sizes, Index=tf.int32)


def _sum_before_relu(chain: Chain, result: str, others: Sequence[str]) -> str:
    """Adds what a product is added to, if anything is, and the gradient of a ReLU, if there is."""
    addends = chain.attribute("addends").i
    if addends:
        result = chain.add("AddN", result, others[0], N=2)
    features = others[addends:]
    return chain.add("ReluGrad", result, *features) if features else result


def _product_before_relu(chain: Chain) -> Sequence[str]:
    x, kernel, features = chain.inputs
    return [chain.add("ReluGrad", chain.add("Conv2D", x, kernel), features)]


def _pool_and_relu_gradients(chain: Chain) -> Sequence[str]:
    image, _, _ = chain.inputs
    result = chain.add("MaxPoolGrad", *chain.inputs)
    return [chain.add("ReluGrad", result, image) if chain.attribute("relu").b else result]


def _dropout_mask(chain: Chain) -> Sequence[str]:
    key, counter = chain.inputs
    shape = tf.TensorShape(chain.attribute("shape").shape).as_list()
    dtype = tf.as_dtype(chain.attribute("dtype").type)
    numbers = chain.add(
        "StatelessRandomUniformV2",
        chain.constant(shape, tf.int32),
        key,
        counter,
        chain.constant(tf.random.Algorithm.PHILOX.value, tf.int32),
        dtype=dtype,
        Tshape=tf.int32,
    )
    return [_reach(chain, numbers, dtype)]


def _stateful_dropout_mask(chain: Chain) -> Sequence[str]:
    shape = tf.TensorShape(chain.attribute("shape").shape).as_list()
    dtype = tf.as_dtype(chain.attribute("dtype").type)
    numbers = chain.add(
        "RandomUniform",
        chain.constant(shape, tf.int32),
        dtype=dtype,
        T=tf.int32,
    )
    return [_reach(chain, numbers, dtype)]


def _reach(chain: Chain, numbers: str, dtype: tf.DType) -> str:
    rate = chain.constant(chain.attribute("rate").f, dtype)
    return chain.add("GreaterEqual", numbers, rate, T=dtype)


def _masked_scale(chain: Chain) -> Sequence[str]:
    x, mask, scale = chain.inputs
    return [_dropout(chain, x, mask, scale, dtype=tf.as_dtype(chain.attribute("T").type))]


def _dropout(chain: Chain, values: str, mask: str, scale: str, dtype: tf.DType = tf.float32) -> str:
    # In the order of gradients: for dropout itself, the joined chain is always known.
    masked_values = chain.add("SelectV2", mask, values, chain.constant(0.0, dtype))
    return chain.add("Mul", masked_values, scale)


def _moments(chain: Chain) -> Sequence[str]:
    (x,) = chain.inputs
    axes = _rows(chain)
    mean = chain.add("Mean", x, axes)
    return [mean, chain.add("Mean", chain.add("SquaredDifference", x, mean), axes)]


def _column_dots(chain: Chain) -> Sequence[str]:
    x, dy = chain.inputs
    axes = _rows(chain)
    return [chain.add("Sum", dy, axes), chain.add("Sum", chain.add("Mul", x, dy), axes)]


def _column_sums(chain: Chain) -> Sequence[str]:
    (x,) = chain.inputs
    axes = list(range(chain.attribute("axes").i))
    return [chain.add("Sum", x, chain.constant(axes, tf.int32))]


def _rows(chain: Chain) -> str:
    """Adds the numbers of all dimensions but the last."""
    return chain.constant(list(range(chain.attribute("rank").i - 1)), tf.int32)


def _scale_shift(chain: Chain) -> Sequence[str]:
    x, *addend, scale, shift = chain.inputs
    result = chain.add("AddV2", chain.add("Mul", x, scale), shift)
    if addend:
        result = chain.add("AddV2", result, *addend)
    if chain.attribute("relu6").b:
        return [chain.add("Relu6", result)]
    return [chain.add("Relu", result) if chain.attribute("relu").b else result]


def _norm_gradient(chain: Chain) -> Sequence[str]:
    x, dy, scale, mean, of_variance, of_mean = chain.inputs
    rows = chain.constant(float(chain.attribute("rows").i), tf.float32)
    two = chain.constant(2.0, tf.float32)
    slope = chain.add("Mul", two, chain.add("RealDiv", of_variance, rows))
    by_variance = chain.add("Mul", slope, chain.add("Sub", x, mean))
    by_values = chain.add("AddV2", chain.add("Mul", dy, scale), by_variance)
    return [chain.add("AddV2", by_values, chain.add("RealDiv", of_mean, rows))]


def _scaled_difference(chain: Chain) -> Sequence[str]:
    a, b, factor = chain.inputs
    value = chain.add("Square", a) if chain.attribute("square").b else a
    result = chain.add("Mul", chain.add("Sub", value, b), factor)
    return [chain.add("AddV2", b, result) if chain.attribute("add").b else result]


def _adam_step(chain: Chain) -> Sequence[str]:
    return [_step_of_adam(chain, *chain.inputs)]


def _adam_update(chain: Chain) -> Sequence[str]:
    weights, mean, square, rate, epsilon, *_ = chain.inputs
    return [chain.add("Sub", weights, _step_of_adam(chain, mean, square, rate, epsilon))]


def _step_of_adam(chain: Chain, mean: str, square: str, rate: str, epsilon: str) -> str:
    total = chain.add("AddV2", chain.add("Sqrt", square), epsilon)
    return chain.add("RealDiv", chain.add("Mul", mean, rate), total)


def _scaled_update(chain: Chain) -> Sequence[str]:
    weights, gradient, rate, *_ = chain.inputs
    return [chain.add("Sub", weights, chain.add("Mul", gradient, rate))]


def _product_update(chain: Chain) -> Sequence[str]:
    a, b, weights, rate, *_ = chain.inputs
    transposed = {name: chain.attribute(name).b for name in ("transpose_a", "transpose_b")}
    product = chain.add("MatMul", a, b, **transposed)
    return [chain.add("Sub", weights, chain.add("Mul", product, rate))]


def _softmax_gradient(chain: Chain) -> Sequence[str]:
    return [_gradient_of_softmax(chain, *chain.inputs)]


def _gradient_of_softmax(chain: Chain, y: str, dy: str) -> str:
    last = chain.constant([-1], tf.int32)
    total = chain.add("Sum", chain.add("Mul", dy, y), last, keep_dims=True)
    return chain.add("Mul", chain.add("Sub", dy, total), y)


def _softmax_dropout(chain: Chain) -> Sequence[str]:
    x, mask, scale = chain.inputs
    y = chain.add("Softmax", x)
    return [y, _dropout(chain, y, mask, scale)]


def _softmax_dropout_gradient(chain: Chain) -> Sequence[str]:
    y, dy, mask, scale = chain.inputs
    return [_gradient_of_softmax(chain, y, _dropout(chain, dy, mask, scale))]


def _layer_norm(chain: Chain) -> Sequence[str]:
    x, gamma, beta, epsilon = chain.inputs
    axes = _last(chain)
    mean = chain.add("Mean", x, axes, keep_dims=True)
    squares = chain.add("SquaredDifference", x, _stop_gradient(chain, mean))
    variance = chain.add("Mean", squares, axes, keep_dims=True)
    inverse = chain.add("Rsqrt", chain.add("AddV2", variance, epsilon))
    slope = chain.add("Mul", inverse, gamma)
    offset = chain.add("Sub", beta, chain.add("Mul", mean, slope))
    return [chain.add("AddV2", chain.add("Mul", x, slope), offset), mean, inverse]


def _layer_norm_gradient(chain: Chain) -> Sequence[str]:
    x, dy, gamma, mean, inverse, *added = chain.inputs
    axes = _last(chain)
    rank = chain.attribute("rank").i
    rows = chain.constant(list(range(rank - chain.attribute("axes").i)), tf.int32)
    shape = chain.add("Shape", gamma, out_type=tf.int32)
    distance = chain.add("Sub", x, mean)
    scaled = chain.add("Mul", dy, gamma)
    dot = chain.add("Mean", chain.add("Mul", scaled, distance), axes, keep_dims=True)
    cube = chain.add("Mul", chain.add("Square", inverse), inverse)
    deviation = chain.add("Sub", x, _stop_gradient(chain, mean))
    by_variance = chain.add("Mul", deviation, chain.add("Mul", dot, cube))
    share = chain.add("Mean", scaled, axes, keep_dims=True)
    by_mean = chain.add("Mul", chain.add("Sub", scaled, share), inverse)
    dx = chain.add("Sub", by_mean, by_variance)
    for tensor in added:
        dx = chain.add("AddV2", dx, tensor)
    of_gamma = chain.add("Mul", dy, chain.add("Mul", distance, inverse))
    sums = [chain.add("Sum", terms, rows) for terms in (of_gamma, dy)]
    return [dx, *(chain.add("Reshape", sum_, shape, Tshape=tf.int32) for sum_ in sums)]


def _stop_gradient(chain: Chain, mean: str) -> str:
    return chain.add("StopGradient", mean) if chain.attribute("stops").b else mean


def _last(chain: Chain) -> str:
    """Adds the numbers of the last dimensions, which are normalized."""
    return chain.constant([-axis for axis in range(1, chain.attribute("axes").i + 1)], tf.int32)


def _gelu(chain: Chain) -> Sequence[str]:
    (x,) = chain.inputs
    if chain.attribute("approximate").b:
        share = chain.add("AddV2", _number(chain, 1.0), _tanh_of_cubic(chain, x)[0])
    else:
        share = chain.add("Erfc", chain.add("Mul", x, _number(chain, -math.sqrt(0.5))))
    return [chain.add("Mul", chain.add("Mul", _number(chain, 0.5), x), share)]


def _tree_sum(chain: Chain) -> Sequence[str]:
    summands = dict(enumerate(chain.inputs))
    return [reduced(summands, len(summands), lambda left, right: chain.add("AddV2", left, right))]


def _gelu_gradient(chain: Chain) -> Sequence[str]:
    x, dy = chain.inputs
    if chain.attribute("approximate").b:
        tanh, square = _tanh_of_cubic(chain, x)
        share = chain.add("AddV2", _number(chain, 1.0), tanh)
        cubic = chain.add("Mul", _number(chain, 3 * _CUBIC), square)
        slope = chain.add("AddV2", _number(chain, _LINEAR), cubic)
        by_slope = chain.add("TanhGrad", tanh, chain.add("Mul", x, slope))
    else:
        share = chain.add("Erfc", chain.add("Mul", x, _number(chain, -math.sqrt(0.5))))
        half = chain.add("Mul", _number(chain, -0.5), chain.add("Square", x))
        bell = chain.add("Mul", _number(chain, math.sqrt(2 / math.pi)), chain.add("Exp", half))
        by_slope = chain.add("Mul", x, bell)
    total = chain.add("Mul", _number(chain, 0.5), chain.add("AddV2", share, by_slope))
    return [chain.add("Mul", dy, total)]


_LINEAR = math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR


def _tanh_of_cubic(chain: Chain, x: str) -> tuple[str, str]:
    """Adds the tanh of a GELU by tanh; returns it and the square of x."""
    square = chain.add("Square", x)
    cubic = chain.add("Mul", _number(chain, _CUBIC), square)
    factor = chain.add("AddV2", _number(chain, _LINEAR), cubic)
    return chain.add("Tanh", chain.add("Mul", x, factor)), square


def _number(chain: Chain, value: float) -> str:
    return chain.constant(value, tf.float32)


def _sparse_softmax_loss(chain: Chain) -> Sequence[str]:
    loss = chain.add("SparseSoftmaxCrossEntropyWithLogits", *chain.inputs)
    return [loss, f"{loss.removesuffix('loss:0')}backprop:0"]


def _arg_max(chain: Chain) -> Sequence[str]:
    (x,) = chain.inputs
    if chain.attribute("signed_zeros").b:
        x = _with_ordered_zeros(chain, x)
    return [chain.add("ArgMax", x, chain.constant(-1, tf.int32), Tidx=tf.int32)]


def _with_ordered_zeros(chain: Chain, x: str) -> str:
    """Adds minus the smallest normal number in the place of -0."""
    words = chain.add("Bitcast", x, type=tf.int32)
    low, zero = (chain.constant(value, tf.int32) for value in (np.iinfo(np.int32).min, 0))
    sign = chain.add("BitwiseAnd", words, low, T=tf.int32)
    is_zero = chain.add("Equal", x, _number(chain, 0.0))
    negative_zero = chain.add("LogicalAnd", is_zero, chain.add("Less", sign, zero, T=tf.int32))
    below = _number(chain, -float(np.finfo(np.float32).tiny))
    return chain.add("SelectV2", negative_zero, below, x)


def _swapped_rows(chain: Chain) -> Sequence[str]:
    order = [1, 0, *range(2, chain.attribute("rank").i)]
    return [chain.add("Transpose", *chain.inputs, chain.constant(order, tf.int32), Tperm=tf.int32)]


def _as_stock(op_type: str) -> Expand:
    return lambda chain: [chain.add(op_type, *chain.inputs)]


def _segment_sum(chain: Chain) -> Sequence[str]:
    return [chain.add("UnsortedSegmentSum", *chain.inputs, Tindices=tf.int32)]


def _gathered_rows(chain: Chain) -> Sequence[str]:
    return [_rows_by(chain, *chain.inputs)]


def _gathered_segment_sum(chain: Chain) -> Sequence[str]:
    params, indices, mask, ids, count = chain.inputs
    rows = _rows_by(chain, params, indices, mask)
    return [chain.add("UnsortedSegmentSum", rows, ids, count, Tindices=tf.int32)]


def _rows_by(chain: Chain, params: str, indices: str, ids: str) -> str:
    """Adds the rows of `indices`, and zeros in place of those whose id is negative."""
    first, last = (chain.constant(axis, tf.int32) for axis in (0, 1))
    rows = chain.add("GatherV2", params, indices, first, **_GATHER)
    is_valid = chain.add("GreaterEqual", ids, chain.constant(0, tf.int32), T=tf.int32)
    is_valid = chain.add("ExpandDims", is_valid, last, T=tf.bool)
    return chain.add("SelectV2", is_valid, rows, chain.constant(0.0, tf.float32))


_GATHER = {"Tparams": tf.float32, "Tindices": tf.int32, "Taxis": tf.int32}


JOINED: Mapping[str, Expand] = MappingProxyType(
    {
        "IpuConv2DBias": _with_bias("Conv2D"),
        "IpuMatMulBias": _with_bias("MatMul"),
        "IpuReshapedMatMulBias": _reshaped_matmul_with_bias,
        "IpuTransposedMatMul": _transposed_matmul,
        "IpuMatMulFused": _product_gradient,
        "IpuMatMulUpdate": _product_update,
        "IpuConv2DBackpropFilterWithBias": _filter_and_bias_gradients,
        "IpuConv2DBackpropInputFused": _input_gradient,
        "IpuConv2DReluGrad": _product_before_relu,
        "IpuMaxPoolGrad": _pool_and_relu_gradients,
        "IpuDropoutMask": _dropout_mask,
        "IpuStatefulDropoutMask": _stateful_dropout_mask,
        "IpuMaskedScale": _masked_scale,
        "IpuMoments": _moments,
        "IpuColumnDots": _column_dots,
        "IpuColumnSums": _column_sums,
        "IpuScaleShift": _scale_shift,
        "IpuScaleShiftAdd": _scale_shift,
        "IpuNormGradient": _norm_gradient,
        "IpuScaledDifference": _scaled_difference,
        "IpuAdamStep": _adam_step,
        "IpuSoftmaxDropout": _softmax_dropout,
        "IpuSoftmaxDropoutGrad": _softmax_dropout_gradient,
        "IpuAdamUpdate": _adam_update,
        "IpuScaledUpdate": _scaled_update,
        "IpuSoftmaxGrad": _softmax_gradient,
        "IpuLayerNorm": _layer_norm,
        "IpuLayerNormGrad": _layer_norm_gradient,
        "IpuGelu": _gelu,
        "IpuGeluGrad": _gelu_gradient,
        "IpuRelu6Grad": _as_stock("Relu6Grad"),
        "IpuBiasAddGrad": _as_stock("BiasAddGrad"),
        "IpuSoftmax": _as_stock("Softmax"),
        "IpuArgMax": _arg_max,
        "IpuSwapRows": _swapped_rows,
        "IpuTreeSum": _tree_sum,
        "IpuSparseSoftmaxLoss": _sparse_softmax_loss,
        "IpuSegmentSum": _segment_sum,
        "IpuGatherRows": _gathered_rows,
        "IpuGatherSegmentSum": _gathered_segment_sum,
        "IpuLstm": joined_loops.lstm,
        "IpuLstmGrad": joined_loops.lstm_gradient,
        "IpuGru": joined_loops.gru,
        "IpuGruGrad": joined_loops.gru_gradient,
    }
)
"""The definition of each joined op by the ops that it stands for, by its type."""
