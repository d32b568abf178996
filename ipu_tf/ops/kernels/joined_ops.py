"""The table of joined ops: the stock ops that each of them stands for.

A joined op does the work of a chain of ops in one pass on the host. The machine has no such op: it
runs the chain. So if the compiler meets a joined op, as in a function that was traced for one
program and is called by another, it reads the chain instead: the ops that were joined, if the
function still holds them, else the ops that this table lists. Gradients, which create joined ops
directly, and functions that were pruned do not hold them.

A new joined op needs an entry in `JOINED`; a test compares the table with the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf
from numpy.typing import ArrayLike

from ipu_tf.internals.graphs import set_op_attribute
from ipu_tf.internals.tensorflow import NodeDef, op_def_registry

_REPLACES = "_ipu_tf_replaces_"
"""Attributes of a joined op, by the number of an output: the name of the tensor it replaces. Those
that begin with an underscore may be set on any op, and are kept in files."""


def note_replaced(tensor: tf.Tensor, by: tf.Tensor) -> None:
    """Records on a joined op which tensor one of its outputs replaces.

    Args:
        tensor: The tensor; its op stays in the graph.
        by: The output.
    """
    name = tf.compat.v1.AttrValue(s=tensor.name.encode())
    set_op_attribute(by.op, f"{_REPLACES}{by.value_index}", name)


def replaced(node: NodeDef, index: int) -> str | None:
    """Returns the name of the tensor that a joined op's output replaces, None if unknown.

    Args:
        node: NodeDef of the joined op.
        index: Number of the output.
    """
    key = f"{_REPLACES}{index}"
    return node.attr[key].s.decode() if key in node.attr else None


class Chain:
    """Builds the stock ops that a joined op stands for.

    Args:
        node: NodeDef of the joined op, in a FunctionDef.

    Attributes:
        nodes: The created NodeDefs, each after those it reads.
        inputs: The inputs of the joined op, in their order.
    """

    def __init__(self, node: NodeDef) -> None:
        self._node = node
        self._controls = [name for name in node.input if name.startswith("^")]
        self.nodes: list[NodeDef] = []
        self.inputs: tuple[str, ...] = tuple(n for n in node.input if not n.startswith("^"))

    def attribute(self, name: str) -> tf.compat.v1.AttrValue:
        """Returns the AttrValue of an attribute of the joined op."""
        return self._node.attr[name]

    def add(self, op_type: str, *inputs: str, **values: tf.DType | bool) -> str:
        """Adds an op; returns the name of its first output in a FunctionDef.

        Attributes that both ops have are the joined op's; all others are defaults.

        Args:
            op_type: Its type.
            inputs: Its inputs.
            values: Attributes that the joined op does not have.
        """
        node = self._new(op_type)
        node.input.extend([*inputs, *self._controls])
        definition = op_def_registry.get(op_type)
        for attribute in definition.attr:
            value = values.get(attribute.name)
            if isinstance(value, bool):
                node.attr[attribute.name].b = value
            elif value is not None:
                node.attr[attribute.name].type = value.as_datatype_enum
            elif attribute.name in self._node.attr:
                node.attr[attribute.name].CopyFrom(self._node.attr[attribute.name])
            else:
                node.attr[attribute.name].CopyFrom(attribute.default_value)
        return f"{node.name}:{definition.output_arg[0].name}:0"

    def constant(self, value: ArrayLike, dtype: tf.DType) -> str:
        """Adds a constant; returns its name in a FunctionDef."""
        node = self._new("Const")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
        return f"{node.name}:output:0"

    def _new(self, op_type: str) -> NodeDef:
        # Beside the joined op, not below it: the scope names the layer of the op.
        node = NodeDef(name=f"{self._node.name}_{len(self.nodes)}_{op_type}", op=op_type)
        self.nodes.append(node)
        return node


Expand = Callable[[Chain], Sequence[str]]
"""Adds the ops that a joined op stands for; returns their names for its outputs."""


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


def _biased(product: str) -> Expand:
    def expand_biased(chain: Chain) -> Sequence[str]:
        *operands, bias = chain.inputs
        result = chain.add("BiasAdd", chain.add(product, *operands), bias)
        return [chain.add("Relu", result) if chain.attribute("relu").b else result]

    return expand_biased


def _filter_and_bias_gradients(chain: Chain) -> Sequence[str]:
    of_filter = chain.add("Conv2DBackpropFilter", *chain.inputs)
    return [of_filter, chain.add("BiasAddGrad", chain.inputs[2])]


def _input_and_relu_gradients(chain: Chain) -> Sequence[str]:
    *operands, features = chain.inputs
    return [chain.add("ReluGrad", chain.add("Conv2DBackpropInput", *operands), features)]


def _pool_and_relu_gradients(chain: Chain) -> Sequence[str]:
    image, _, _ = chain.inputs
    result = chain.add("MaxPoolGrad", *chain.inputs)
    return [chain.add("ReluGrad", result, image) if chain.attribute("relu").b else result]


def _dropout_mask(chain: Chain) -> Sequence[str]:
    key, counter = chain.inputs
    shape = tf.TensorShape(chain.attribute("shape").shape).as_list()
    numbers = chain.add(
        "StatelessRandomUniformV2",
        chain.constant(shape, tf.int32),
        key,
        counter,
        chain.constant(tf.random.Algorithm.PHILOX.value, tf.int32),
        dtype=tf.float32,
        Tshape=tf.int32,
    )
    rate = chain.constant(chain.attribute("rate").f, tf.float32)
    return [chain.add("GreaterEqual", numbers, rate, T=tf.float32)]


def _masked_scale(chain: Chain) -> Sequence[str]:
    values, mask, scale = chain.inputs
    # In the order of gradients: for dropout itself, the joined chain is always known.
    kept = chain.add("SelectV2", mask, values, chain.constant(0.0, tf.float32))
    return [chain.add("Mul", kept, scale)]


def _moments(chain: Chain) -> Sequence[str]:
    (x,) = chain.inputs
    axes = _rows(chain)
    mean = chain.add("Mean", x, axes)
    return [mean, chain.add("Mean", chain.add("SquaredDifference", x, mean), axes)]


def _column_dots(chain: Chain) -> Sequence[str]:
    x, dy = chain.inputs
    axes = _rows(chain)
    return [chain.add("Sum", dy, axes), chain.add("Sum", chain.add("Mul", x, dy), axes)]


def _rows(chain: Chain) -> str:
    """Adds the numbers of all dimensions but the last."""
    return chain.constant(list(range(chain.attribute("rank").i - 1)), tf.int32)


def _scale_shift(chain: Chain) -> Sequence[str]:
    x, scale, shift = chain.inputs
    result = chain.add("AddV2", chain.add("Mul", x, scale), shift)
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
    return [chain.add("Mul", chain.add("Sub", value, b), factor)]


def _adam_step(chain: Chain) -> Sequence[str]:
    mean, square, rate, epsilon = chain.inputs
    total = chain.add("AddV2", chain.add("Sqrt", square), epsilon)
    return [chain.add("RealDiv", chain.add("Mul", mean, rate), total)]


def _softmax_gradient(chain: Chain) -> Sequence[str]:
    y, dy = chain.inputs
    last = chain.constant([-1], tf.int32)
    total = chain.add("Sum", chain.add("Mul", dy, y), last, keep_dims=True)
    return [chain.add("Mul", chain.add("Sub", dy, total), y)]


JOINED: Mapping[str, Expand] = MappingProxyType(
    {
        "IpuConv2DBias": _biased("Conv2D"),
        "IpuMatMulBias": _biased("MatMul"),
        "IpuConv2DBackpropFilterWithBias": _filter_and_bias_gradients,
        "IpuConv2DBackpropInputRelu": _input_and_relu_gradients,
        "IpuMaxPoolGrad": _pool_and_relu_gradients,
        "IpuDropoutMask": _dropout_mask,
        "IpuMaskedScale": _masked_scale,
        "IpuMoments": _moments,
        "IpuColumnDots": _column_dots,
        "IpuScaleShift": _scale_shift,
        "IpuNormGradient": _norm_gradient,
        "IpuScaledDifference": _scaled_difference,
        "IpuAdamStep": _adam_step,
        "IpuSoftmaxGrad": _softmax_gradient,
    }
)
"""The definition of each joined op by the ops that it stands for, by its type."""
