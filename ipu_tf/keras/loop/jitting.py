"""Chooses for each loop whether XLA compiles it whole or TensorFlow's graph executor runs it.

A step of a small dense network is many short ops, whose dispatch takes longer than their work:
XLA fuses them. XLA for CPUs is slow at convolutions, pooling, random bits and scattered updates,
so a step that runs any op not listed here stays with the graph executor. The tile ops and the
ops of dropout use the same kernels in both, and their numbers do not depend on the choice.

XLA's compiler takes the time of a thousand steps and more, and far longer for steps of thousands
of ops. So a loop is compiled once enough steps were requested, or from the first one if the model
was compiled with `jit_compile=True`. Steps are counted, not timed: a script runs the same programs
each time.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Iterator

import tensorflow as tf

from ipu_tf.internals.tensorflow import FunctionDef, NodeDef
from ipu_tf.processes.instances import instances
from ipu_tf.runtime.tracing.call_ops import functions_of

logger = logging.getLogger(__name__)

_TILE_OPS = frozenset(
    {
        "IpuAdamStep", "IpuAdamUpdate", "IpuArgMax", "IpuBatchMatMul", "IpuBatchMatMulV3",
        "IpuBiasAddGrad", "IpuCast",
        "IpuColumnDots", "IpuColumnSums", "IpuEinsum", "IpuGatherRows", "IpuGatherSegmentSum",
        "IpuGelu", "IpuGeluGrad", "IpuIndexCheck", "IpuLayerNorm", "IpuLayerNormGrad", "IpuMatMul",
        "IpuMatMulBias", "IpuMatMulFused", "IpuMatMulUpdate", "IpuMoments", "IpuNonfiniteReplay",
        "IpuNormGradient", "IpuRelu6Grad", "IpuReshapedMatMulBias", "IpuScaleShift",
        "IpuScaleShiftAdd", "IpuScaledDifference", "IpuScaledUpdate", "IpuSegmentSum",
        "IpuSoftmax", "IpuSoftmaxDropout", "IpuSoftmaxDropoutGrad", "IpuSoftmaxGrad",
        "IpuSparseSoftmaxLoss", "IpuSwapRows", "IpuTransposedMatMul",
    }
)  # fmt: skip

# Random bits from other kernels than ours are XLA's own, which are slow. Seeds are two words.
_DROPOUT = frozenset({"IpuDropoutMask", "IpuMaskedScale", "StatelessRandomGetKeyCounter"})

_STRUCTURE = frozenset(
    {
        "AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "Const", "If", "Identity",
        "IdentityN", "NoOp", "PartitionedCall", "Placeholder", "ReadVariableOp", "StatelessIf",
        "StatefulPartitionedCall", "StopGradient", "PreventGradient",
    }
)  # fmt: skip

# Of legacy optimizers of tf_keras.
_UPDATES = frozenset(
    {
        "ResourceApplyAdadelta", "ResourceApplyAdagradV2", "ResourceApplyAdaMax",
        "ResourceApplyAdam", "ResourceApplyCenteredRMSProp", "ResourceApplyFtrl",
        "ResourceApplyGradientDescent", "ResourceApplyKerasMomentum", "ResourceApplyRMSProp",
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
        "BroadcastGradientArgs", "BroadcastTo", "Concat", "ConcatOffset", "ConcatV2", "ExpandDims",
        "Fill", "GatherV2", "OneHot", "Pack", "Range", "Rank", "Reshape", "ResourceGather",
        "Shape", "ShapeN", "Size", "Slice", "Split", "SplitV", "Squeeze", "StridedSlice", "Tile",
        "Transpose", "Unpack",
    }
)  # fmt: skip

JITTED_OPS = _TILE_OPS | _DROPOUT | _STRUCTURE | _UPDATES | _ELEMENT_WISE | _REDUCTIONS | _SHAPES
"""Types of the ops of a step that XLA compiles at least as well as the graph executor runs it."""

SCATTERED_UPDATES = frozenset({"ResourceScatterAdd", "ResourceScatterUpdate"})
"""Types of ops that XLA compiles only where the model asks for it. Those of the states of replicas,
of one row each, take less time then, those of the rows of a table more."""

MAX_JITTED_BYTES = 128 << 20
"""XLA keeps a second copy of a step's variables while its loop runs. Above this size the memory is
worth more than the time, of which dense networks of 0.4 to 80 MB gained 15 to 50 percent."""

MAX_JITTED_OPERATIONS = 2000
"""Operations of a step up to which XLA compiles it within seconds. It takes 17 s for an LSTM that
is unrolled over 60 steps (2,200 operations) and two minutes for one over 120."""

JITTED_STEPS = 1000
STEPS_PER_OPERATION = 2
"""As many steps, and as many more for each operation of a step, pay for XLA's compiler: it takes
0.6 s for the smallest network, whose steps are then 0.1 to 0.3 ms shorter."""


class EngineChoice:
    """Decides from the steps requested so far whether XLA compiles the loops around a step.

    Args:
        step: The concrete function of the step.
        replicas: Number of replicas that take turns.
        engine: "graph" for none, "xla" for all that it gains time with, however few steps run;
            "auto" chooses.
    """

    def __init__(
        self,
        step: tf.types.experimental.ConcreteFunction,
        *,
        replicas: int = 1,
        engine: str = "auto",
    ) -> None:
        name = step.name
        self._name = name.decode() if isinstance(name, bytes) else name
        operations = live_operations(step)
        at_once = engine == "xla"
        if engine == "graph":
            self._against = "`simulator.engine` is 'graph'"
        elif at_once:
            self._against = _reason_against(step, operations, JITTED_OPS | SCATTERED_UPDATES)
        else:
            self._against = _reason_against(step, operations, JITTED_OPS) or _reason_of(replicas)
        self._break_even_steps = (
            0 if at_once else JITTED_STEPS + STEPS_PER_OPERATION * operations.total()
        )
        self._steps = 0
        self._last_choice: bool | None = None

    def runs_jitted(self, steps: int) -> bool:
        """Returns whether XLA is to compile the loop.

        Args:
            steps: Steps that are requested now, in addition to earlier requests.
        """
        self._steps += steps
        is_jitted = not self._against and self._steps >= self._break_even_steps
        if is_jitted != self._last_choice:
            self._say(is_jitted)
        self._last_choice = is_jitted
        return is_jitted

    def _say(self, is_jitted: bool) -> None:
        if is_jitted:
            logger.info("The loop around '%s' is compiled by XLA.", self._name)
            return
        few = (
            f"{self._steps} steps are too few: compilation gains time from "
            f"{self._break_even_steps} on"
        )
        reason = self._against or few
        logger.info("The loop around '%s' runs in the graph executor: %s.", self._name, reason)


def _reason_of(replicas: int) -> str:
    """Returns why XLA is not to compile a step of so many replicas unasked, or ""."""
    # XLA rounds otherwise than the graph executor, in which the instances of a job run.
    return "there the bits of replicas do not depend on instances" if replicas > 1 else ""


def _reason_against(
    step: tf.types.experimental.ConcreteFunction,
    operations: collections.Counter[str],
    jitted_ops: frozenset[str],
) -> str:
    """Returns why XLA is not to compile a step, however often it runs, or ""."""
    if instances().count > 1:
        return "the host joins the gradients of several instances"
    host_ops = sorted(operations.keys() - jitted_ops)
    if host_ops:
        return f"XLA gains no time with its ops {', '.join(host_ops)}"
    if operations.total() > MAX_JITTED_OPERATIONS:
        return f"it has {operations.total()} operations, more than {MAX_JITTED_OPERATIONS}"
    size = sum(variable.shape.num_elements() * variable.dtype.size for variable in step.variables)
    if size > MAX_JITTED_BYTES:
        return f"its variables take {size} bytes, more than {MAX_JITTED_BYTES}"
    return ""


def live_operations(function: tf.types.experimental.ConcreteFunction) -> collections.Counter[str]:
    """Returns how many ops of each type a function runs, including those of called functions.

    The graph may hold further ops, such as those that were joined, that no result needs. A
    function that is called several times counts once, and so does the body of a loop.

    Args:
        function: A concrete function.
    """
    definitions = {f.signature.name: f for f in function.graph.as_graph_def().library.function}
    worklist = [function.function_def]
    operations: collections.Counter[str] = collections.Counter()
    names_of_callees: set[str] = set()
    while worklist:
        for node in _live_nodes(worklist.pop()):
            operations[node.op] += 1
            names = {
                f.name for value in node.attr.values() for f in functions_of(value)
            } - names_of_callees
            worklist += [definitions[name] for name in names]
            names_of_callees |= names
    return operations


def _live_nodes(definition: FunctionDef) -> Iterator[NodeDef]:
    """Yields the nodes of a FunctionDef that its results or side effects need."""
    nodes = {node.name: node for node in definition.node_def}
    names = [*definition.ret.values(), *definition.control_ret.values()]
    while names:
        node = nodes.pop(names.pop().removeprefix("^").partition(":")[0], None)
        if node is not None:
            yield node
            names += node.input
