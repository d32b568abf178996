"""A traced program: which of its ops are tile ops, why the others are not, what it costs."""

from __future__ import annotations

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
