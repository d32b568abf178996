"""A traced program: its tile ops, its native ops with reasons, and its device program."""

from __future__ import annotations

from dataclasses import dataclass, field

from ipu_tf.base import deprecation
from ipu_tf.base.codec import NOT_IN_FILES
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.programs.insight import Insight
from ipu_tf.programs.nonfinite import NonFinite
from ipu_tf.programs.source import Source
from ipu_tf.tile_program.device_program import DeviceProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class TileOp:
    """An op that runs tile by tile.

    Attributes:
        name: Its name in the program.
        layer: The Keras layer or name scope it belongs to.
        op_type: Its TensorFlow type, such as "Conv2D".
        shape: The shape of the contraction.
        plan: Its split over tiles.
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
    """One traced function; tracing and compilation fill it.

    Attributes:
        name: Name of the function.
        tile_ops: The ops that run as tile ops, in the order of the trace.
        native_ops: The contractions that TensorFlow's kernels run instead.
        device: The compiled program; None until then, or if it has no device program.
        steps_per_execution: Steps (micro-batches of a replica) that one call from the host ran when
            it was traced; 0 if it runs in a loop of the script's own, of unknown length.
        refusal: The reason why compilation failed; "" if it did not fail.
        insights: Changes that gain something, the best first; `Report.with_insights` finds them.
        insights_note: Changes that were not planned, and why; "" if all were.
        insights_sought: Whether its insights were looked for.
        nonfinite: Where its first NaN or infinity came from; empty unless
            `simulator.trace_numerics` is on and a run had one.
        source: The input of its compilation, to plan it again; None if it is gone.
    """

    name: str
    tile_ops: list[TileOp] = field(default_factory=list)
    native_ops: list[NativeOp] = field(default_factory=list)
    device: DeviceProgram | None = None
    steps_per_execution: int = 1
    refusal: str = ""
    insights: tuple[Insight, ...] = ()
    insights_note: str = ""
    insights_sought: bool = False
    nonfinite: list[NonFinite] = field(default_factory=list)
    source: Source | None = field(default=None, compare=False, repr=False, metadata=NOT_IN_FILES)

    @property
    def pipeline(self) -> DeviceProgram | None:
        """Deprecated: `device`, if it has several stages, replicas or micro-batches."""
        deprecation.warn("Program.pipeline", "Program.device")
        device = self.device
        if device is None or len(device.stages) == device.micro_batches == device.replicas == 1:
            return None
        return device

    @property
    def complete(self) -> bool:
        """Whether it is compiled, and everything in it has a cost."""
        compiled = self.device
        return compiled is not None and compiled.complete
