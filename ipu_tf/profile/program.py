"""A traced program: which of its ops are tile ops, why the others are not, what it costs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ipu_tf.compiler.device_program import DeviceProgram
from ipu_tf.compiler.planner.plan import OpShape, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TileOp:
    """An op that runs tile by tile.

    Attributes:
        name: Its name in the program.
        layer: The Keras layer or name scope it belongs to.
        op_type: Its TensorFlow type, such as "Conv2D".
        shape: What is computed.
        plan: How it is split over tiles.
        stochastic_rounding: Whether float16 results are rounded stochastically.
    """

    name: str
    layer: str
    op_type: str
    shape: OpShape
    plan: Plan
    stochastic_rounding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeOp:
    """A contraction that TensorFlow's own kernel runs.

    Attributes:
        name: Its name in the program.
        layer: The Keras layer or name scope it belongs to.
        op_type: Its TensorFlow type.
        reason: Why it has no tile op.
    """

    name: str
    layer: str
    op_type: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Program:
    """One traced function, filled while it is traced and compiled.

    Attributes:
        name: Name of the function.
        tile_ops: What runs as tile ops, in the order of the trace.
        native_ops: What TensorFlow's kernels run instead.
        device: What it was compiled to; None until then, and where it has no device program.
        steps_per_execution: Steps (micro-batches of a replica) that one call from the host ran when
            it was traced.
        refusal: Why it was not compiled, where it was to be; "" for all else.
    """

    name: str
    tile_ops: list[TileOp] = field(default_factory=list)
    native_ops: list[NativeOp] = field(default_factory=list)
    device: DeviceProgram | None = None
    steps_per_execution: int = 1
    refusal: str = ""

    @property
    def complete(self) -> bool:
        """Whether it is compiled, and everything in it has a cost."""
        compiled = self.device
        return compiled is not None and compiled.complete


LOSS = "loss"
"""Stands for a layer in what computes the loss of a model."""

METRICS = "metrics"
"""Stands for a layer in what computes metrics."""


# The compiler puts the names of the calls before that of an op of a called function.
_CALLS = re.compile(r"(?:^|(?<=/))(?:Stateful)?PartitionedCall(?:_\d+)?/")


def own_name(op_name: str) -> str:
    """Returns the name that an op has in its function, of its name in a device program.

    "block/PartitionedCall/dense/MatMul" is "dense/MatMul" of a function that is called in "block".
    """
    return _CALLS.split(op_name)[-1]


def without_calls(op_name: str) -> str:
    """Returns the name of an op, with the scopes of the calls that lead to it but not the calls.

    "block/PartitionedCall/dense/MatMul" is "block/dense/MatMul". A function whose own ops have the
    scope of its call in their names has it once.
    """
    path = ""
    for part in _CALLS.split(op_name):
        path = part if part.startswith(path) else path + part
    return path


def scope_of(op_name: str) -> str:
    """Returns the name scope of an op, "" at the top level.

    Gradients carry the scope of the op they are the gradient of:
    "gradient_tape/sequential/dense/MatMul/MatMul_1" belongs to "sequential/dense".
    """
    parts = op_name.strip("/").split("/")
    if "gradient_tape" in parts:
        return "/".join(parts[parts.index("gradient_tape") + 1 : -2])
    return "/".join(parts[:-1])
