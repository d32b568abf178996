"""Where the first NaN or infinity of a program came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipu_tf.base.codec import AnyFloat
from ipu_tf.programs.nonfinite_advice import advice

Fault: TypeAlias = Literal[
    "invalid operation", "division by zero", "overflow", "underflow", "from outside"
]
"""What happened. invalid operation: a NaN from operands without one. overflow: an infinity from
finite operands. underflow: zeros for values too small for the type. from outside: values were not
finite before the program read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSummary:
    """The values of a tensor.

    Attributes:
        name: Name of the tensor.
        dtype: Its type.
        shape: Its shape.
        low: Its smallest finite value; None if it has none.
        high: Its largest finite value; None if it has none.
        nans: Number of NaN.
        infinities: Number of infinities.
        zeros: Number of zeros.
        exponents: A histogram of the other finite values: how many are from 2**exponent to below
            2**(exponent + 1) in size, by exponent; without the exponents of none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: AnyFloat | None
    high: AnyFloat | None
    nans: int = 0
    infinities: int = 0
    zeros: int = 0
    exponents: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        values = "no finite value" if self.low is None else f"{self.low:.6g} to {self.high:.6g}"
        counts = ((self.nans, "NaN"), (self.infinities, "infinite"))
        others = "".join(f", {count:,} {word}" for count, word in counts if count)
        shape = ", ".join(str(size) for size in self.shape)
        return f"{self.name} {self.dtype}[{shape}]: {values}{others}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite:
    """The first operation of a program's run whose result was not finite, though it should be.

    Attributes:
        program: Name of the program.
        run: Number of the run since the program was traced, from 1; replicas count together. 0
            where runs are not counted, as for floating-point exceptions.
        fault: What happened.
        op: Name of the operation; "" if values came from outside.
        op_type: Its TensorFlow type.
        layer: Path of its Keras layer or its name scope, "" for none.
        operands: What it read; for values from outside, those that are not finite.
        results: What it computed.
        position: Indices of the first value that is not finite, in the first such result.
        around: The values from four before to four behind it, in memory's order.
        step: Number of the device program's step that computes it, from 0 among those of its
            stage; None if it has none.
        joined_with: Name of the operation that the step is of, if the compiler has joined this one
            with it; "" for a step of its own.
        superstep: Name of the last superstep of the step, "" without one.
        tiles: Number of tiles that work in it.
        tile_ranges: First and last number of these tiles on their IPU, range by range; empty where
            the program does not say which they are.
        tile: Number of the tile that computes the first value that is not finite; None where it is
            not known.
        ipu: Number of the IPU among those of the program's replica; None where it is not known.
        stage: Number of the pipeline stage; None without a pipeline.
        replica: Number of the replica; None for a program without replicas.
        micro_batch: Number of the micro-batch in its update of the weights, from 0; None without
            gradient accumulation.
        update: Number of the update of the weights since the program was traced, from 1; None where
            the program makes none.
        iterations: Name of each loop around the operation, the outermost first, with the number of
            its iteration, from 0.
        nan_op: Name of the first operation that made a NaN of its infinity; "" if none did.
        nan_layer: Path of the layer or name scope of that operation.
        handled: Whether loss scaling takes care of it: it skips the update, and lowers the scale.
        loss_scale: The loss scale of the run; None where there is none, or it is not known.
        lost: Number of values that are 0 although they should not be; the last of `results` is what
            the result should be.
        factor: How many times as large the loss scale would have to be to keep `kept` of them; the
            largest factor with which no gradient overflows, at most what keeps all.
        kept: Number of values that it would keep.
    """

    program: str
    run: int
    fault: Fault
    op: str = ""
    op_type: str = ""
    layer: str = ""
    operands: tuple[ValueSummary, ...] = ()
    results: tuple[ValueSummary, ...] = ()
    position: tuple[int, ...] = ()
    around: tuple[AnyFloat, ...] = ()
    step: int | None = None
    joined_with: str = ""
    superstep: str = ""
    tiles: int = 0
    tile_ranges: tuple[tuple[int, int], ...] = ()
    tile: int | None = None
    ipu: int | None = None
    stage: int | None = None
    replica: int | None = None
    micro_batch: int | None = None
    update: int | None = None
    iterations: tuple[tuple[str, int], ...] = ()
    nan_op: str = ""
    nan_layer: str = ""
    handled: bool = False
    loss_scale: AnyFloat | None = None
    lost: int = 0
    factor: AnyFloat = 1.0
    kept: int = 0

    @property
    def is_harmless(self) -> bool:
        """Whether no NaN follows from it: loss scaling handles it, or values became 0."""
        return self.handled or self.fault == "underflow"

    @property
    def place(self) -> str:
        """The layer, the operation and where the device computes it."""
        layer = f"layer '{self.layer}', " if self.layer else ""
        place = f"{layer}op '{self.op}' ({self.op_type})"
        if self.step is None:
            return place
        return f"{place}, {self.superstep_and_tiles}"

    @property
    def superstep_and_tiles(self) -> str:
        """The step and the superstep that compute it, and on which tiles; "" if none does."""
        if self.step is None:
            return ""
        ranges = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in self.tile_ranges)
        tiles = f" on {self.tiles:,} tile{'s' * (self.tiles != 1)}" if self.tiles else ""
        numbers = f" ({ranges})" if ranges else ""
        ipu = "" if self.ipu is None else f" of IPU {self.ipu}"
        first = "" if self.tile is None else f", the first on tile {self.tile}"
        superstep = f", superstep '{self.superstep}'" if self.superstep else ""
        beside = f", joined with '{self.joined_with}'" if self.joined_with else ""
        step = f"step {self.step} of the device program{beside}"
        return f"{step}{superstep}{tiles}{numbers}{first}{ipu}"

    @property
    def moment(self) -> str:
        """The run, and the part of it: update, replica, micro-batch, stage, iterations of loops; ""
        where none is known."""
        numbers = (
            ("run", self.run or None),
            ("update", self.update),
            ("replica", self.replica),
            ("micro-batch", self.micro_batch),
            ("stage", self.stage),
            ("loss scale", None if self.loss_scale is None else f"{self.loss_scale:,.6g}"),
        )
        words = [f"{name} {number}" for name, number in numbers if number is not None]
        loops = [f"iteration {number} of '{loop}'" for loop, number in self.iterations]
        return ", ".join([*words, *loops])

    @property
    def what_to_do(self) -> str:
        """A way out, as a clause."""
        if self.handled:
            return "nothing: loss scaling has skipped the update and lowered the scale"
        if self.fault == "underflow":
            return self._larger_scale
        values = [one for one in self.operands if one.high is not None and one.low is not None]
        return advice(
            self.fault,
            op=self.op,
            op_type=self.op_type,
            layer=self.layer,
            dtype=self.results[0].dtype if self.results else "",
            largest=max((max(abs(one.low or 0), abs(one.high or 0)) for one in values), default=0),
            infinities=any(one.infinities for one in self.operands),
        )

    @property
    def _larger_scale(self) -> str:
        """What a larger loss scale would do about an underflow, as a clause."""
        if self.factor <= 1:
            return (
                "compute this layer in float32: with a larger loss scale other gradients overflow"
            )
        now = "" if self.loss_scale is None else f", {self.factor * self.loss_scale:,.6g},"
        return (
            f"raise the loss scale: {self.factor:,.6g} times as large{now} it keeps {self.kept:,} "
            f"of them and no gradient of this run overflows"
        )

    def __str__(self) -> str:
        moment = f", {self.moment}" if self.moment else ""
        first, last = f"Program '{self.program}'{moment}: ", f" To do: {self.what_to_do}."
        if not self.op:
            read = _join(self.operands)
            return f"{first}values were not finite before it read them: {read}.{last}"
        values = ", ".join(f"{value:.6g}" for value in self.around)
        if self.fault == "underflow":
            return (
                f"{first}the first gradient that flushes to zero is of {self.place}: {self.lost:,} "
                f"of its values are 0 and should not be. Operands: {_join(self.operands)}. "
                f"Result: {_join(self.results)}; the first is at {list(self.position)}, where "
                f"{values} should be.{last}"
            )
        of_layer = f" of layer '{self.nan_layer}'" if self.nan_layer else ""
        later = f" '{self.nan_op}'{of_layer} makes a NaN of it." if self.nan_op else ""
        event = "gradient that overflows" if self.handled else "result that is not finite"
        return (
            f"{first}the first {event} is of {self.place}: {self.fault}. "
            f"Operands: {_join(self.operands)}. Result: {_join(self.results)}; the first is at "
            f"{list(self.position)}, among {values}.{later}{last}"
        )


def _join(summaries: tuple[ValueSummary, ...]) -> str:
    return "; ".join(map(str, summaries)) or "none"
