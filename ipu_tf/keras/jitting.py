"""Which loops XLA compiles whole, and which TensorFlow's graph executor runs.

A step of a small dense network is many short ops, whose dispatch takes longer than their work:
XLA joins them. XLA for CPUs is slow at convolutions, pooling, random bits and scattered updates,
so a step that runs any op that is not listed here stays with the graph executor. The tile ops and
those of dropout are the same kernels in both, and their numbers do not depend on the choice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from ipu_tf.runtime.calls import functions_of

logger = logging.getLogger(__name__)

_TILE_OPS = frozenset(
    {
        "IpuBatchMatMul", "IpuBatchMatMulV3", "IpuCast", "IpuEinsum", "IpuMatMul", "IpuMatMulBias",
    }
)  # fmt: skip

# Random bits that do not come from our kernel are XLA's own, which are slow. Seeds are two words.
_DROPOUT = frozenset({"IpuDropoutMask", "IpuMaskedScale", "StatelessRandomGetKeyCounter"})

_STRUCTURE = frozenset(
    {
        "AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "Const", "If", "Identity",
        "IdentityN", "NoOp", "PartitionedCall", "Placeholder", "ReadVariableOp", "StatelessIf",
        "StatefulPartitionedCall", "StopGradient", "PreventGradient",
    }
)  # fmt: skip

_ELEMENT_WISE = frozenset(
    {
        "Abs", "Add", "AddN", "AddV2", "BiasAdd", "BiasAddGrad", "Bitcast",
        "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Cast", "ClipByValue", "Div",
        "DivNoNan", "Elu", "EluGrad", "Equal", "Erf", "Exp", "Expm1", "Floor", "FloorDiv",
        "FloorMod", "Greater", "GreaterEqual", "Inv", "InvGrad", "IsFinite", "IsInf", "IsNan",
        "LeakyRelu", "LeakyReluGrad", "Less", "LessEqual", "Log", "Log1p", "LogicalAnd",
        "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "NotEqual",
        "Pow", "RealDiv", "Reciprocal", "ReciprocalGrad", "Relu", "Relu6", "Relu6Grad", "ReluGrad",
        "Round", "Rsqrt", "RsqrtGrad", "Select", "SelectV2", "Selu", "SeluGrad", "Sigmoid",
        "SigmoidGrad", "Sign", "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "Sqrt",
        "SqrtGrad", "Square", "SquaredDifference", "Sub", "Tanh", "TanhGrad", "Xdivy", "Xlog1py",
        "Xlogy", "ZerosLike", "OnesLike",
    }
)  # fmt: skip

_REDUCTIONS = frozenset(
    {
        "All", "Any", "ArgMax", "ArgMin", "L2Loss", "LogSoftmax", "Max", "Mean", "Min", "Prod",
        "Softmax", "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "Sum",
    }
)  # fmt: skip

_SHAPES = frozenset(
    {
        "BroadcastGradientArgs", "BroadcastTo", "Concat", "ConcatV2", "ExpandDims", "Fill", "Pack",
        "Range", "Rank", "Reshape", "Shape", "ShapeN", "Size", "Slice", "Split", "SplitV",
        "Squeeze", "StridedSlice", "Tile", "Transpose", "Unpack", "OneHot",
    }
)  # fmt: skip

JITTED_OPS = _TILE_OPS | _DROPOUT | _STRUCTURE | _ELEMENT_WISE | _REDUCTIONS | _SHAPES
"""Types of the ops of a step that XLA compiles at least as well as the graph executor runs it."""

MAX_JITTED_BYTES = 128 << 20
"""XLA keeps a second copy of a step's variables while its loop runs. Above this size the memory is
worth more than the time, of which dense networks of 0.4 to 80 MB gained 15 to 50 percent."""


def runs_jitted(step: Any) -> bool:
    """Returns whether XLA is to compile the loop around a step.

    Args:
        step: The concrete function of the step.
    """
    others = sorted(live_op_types(step) - JITTED_OPS)
    size = sum(variable.shape.num_elements() * variable.dtype.size for variable in step.variables)
    name = step.name.decode() if isinstance(step.name, bytes) else step.name
    if others:
        reason = f"it has ops that XLA is not to compile: {', '.join(others)}"
    elif size > MAX_JITTED_BYTES:
        reason = f"its variables take {size} bytes, more than {MAX_JITTED_BYTES}"
    else:
        logger.info("The loop around '%s' is compiled by XLA.", name)
        return True
    logger.info("The loop around '%s' runs in the graph executor: %s.", name, reason)
    return False


def live_op_types(function: Any) -> set[str]:
    """Returns the types of the ops that run when a function does, and in what it calls.

    Others may be in its graph, as those that were joined are, but nothing needs them.

    Args:
        function: A concrete function.
    """
    definitions = {f.signature.name: f for f in function.graph.as_graph_def().library.function}
    waiting = [function.function_def]
    types: set[str] = set()
    seen: set[str] = set()
    while waiting:
        for node in _live_nodes(waiting.pop()):
            types.add(node.op)
            names = {f.name for value in node.attr.values() for f in functions_of(value)} - seen
            waiting += [definitions[name] for name in names]
            seen |= names
    return types


def _live_nodes(definition: Any) -> Iterator[Any]:
    """Yields the nodes of a FunctionDef that its results or side effects need."""
    waiting = {node.name: node for node in definition.node_def}
    names = [*definition.ret.values(), *definition.control_ret.values()]
    while names:
        node = waiting.pop(names.pop().removeprefix("^").partition(":")[0], None)
        if node is not None:
            yield node
            names += node.input
