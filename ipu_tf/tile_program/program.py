"""The program of one IPU: steps in order, tensors on tiles, memory over time. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.planner.plan import Plan
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.phase import Phase

Category: TypeAlias = Literal[
    "weights",
    "optimizer_state",
    "accumulators",
    "state",
    "inputs",
    "constants",
    "activations",
    "fifos",
    "scratch",
    "exchange_buffers",
    "vertex_state",
    "vertex_code",
    "exchange_code",
    "stack",
]
"""Categories of tile memory."""

Front: TypeAlias = Literal["tensorflow", "poplar"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The work of one instruction.

    Attributes:
        name: Name of the instruction.
        opcode: Its opcode.
        layer: Path of its Keras layer, "" for none.
        phase: Its part of the training step.
        supersteps: Its supersteps, in order.
        repeats: Number of runs: the product of the trip counts of the enclosing loops.
        flops: Floating point operations of one repetition.
        plan: The plan of a contraction, else None.
        dtype: Type of the inputs of a contraction; "" for other work, and in earlier files.
        op_name: Name of its TensorFlow op.
        recomputed: Whether it computes a value of the forward pass again.
    """

    name: str
    opcode: str
    layer: str
    phase: Phase
    supersteps: tuple[Superstep, ...]
    repeats: int = 1
    flops: int = 0
    plan: Plan | None = None
    dtype: str = ""
    op_name: str = ""
    recomputed: bool = False

    @property
    def cycles(self) -> int:
        """Cycles of all repetitions."""
        return self.repeats * sum(superstep.total_cycles for superstep in self.supersteps)

    @property
    def overlapped_cycles(self) -> int:
        """Cycles of its transfers that I/O tiles make beside the work of the others."""
        return self.repeats * sum(superstep.overlapped_cycles for superstep in self.supersteps)

    @property
    def ahead_cycles(self) -> int:
        """Cycles in which the host's connection moves its data beside the work of all tiles."""
        return self.repeats * sum(superstep.ahead_cycles for superstep in self.supersteps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor in tile memory.

    Attributes:
        name: Name of its instruction, or path of its variable.
        layer: Path of its Keras layer, "" for none.
        category: Its category.
        footprint: The tiles that hold it.
        bytes: Bytes of the whole tensor.
        first_step: Index of the step that makes it; 0 if it is always live.
        last_step: Index of the last step that reads it; the program's last if it is always live.
        always_live: Whether its memory is never freed.
    """

    name: str
    layer: str
    category: Category
    footprint: Footprint
    bytes: int
    first_step: int
    last_step: int
    always_live: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TileMemory:
    """Bytes of every tile.

    Attributes:
        limit_bytes: Bytes that a tile has.
        always_live: Per category, int64[tiles]: bytes that are never freed.
        not_always_live_peak: Per category, int64[tiles]: other bytes in use at `peak_step`.
        peak_step: Index of the step at which the fullest tile is fullest.
        live_bytes: int64[steps]: bytes in use on all tiles together, step by step.
        max_tile_bytes: int64[steps]: bytes in use on the fullest tile, step by step.
    """

    limit_bytes: int
    always_live: Mapping[Category, NDArray[np.int64]]
    not_always_live_peak: Mapping[Category, NDArray[np.int64]]
    peak_step: int
    live_bytes: NDArray[np.int64]
    max_tile_bytes: NDArray[np.int64]

    @property
    def peak_tile_bytes(self) -> NDArray[np.int64]:
        """Bytes in use at the peak, int64[tiles]."""
        parts = [*self.always_live.values(), *self.not_always_live_peak.values()]
        return np.sum(parts, axis=0, dtype=np.int64)

    @property
    def fullest_tile(self) -> int:
        """Number of the tile that is fullest at the peak."""
        return int(np.argmax(self.peak_tile_bytes))

    @property
    def overflow_bytes(self) -> int:
        """Bytes by which the fullest tile exceeds the limit; 0 if it fits."""
        return max(0, int(self.peak_tile_bytes.max()) - self.limit_bytes)

    @property
    def fits(self) -> bool:
        """Whether no tile ever needs more than it has."""
        return self.overflow_bytes == 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TileProgram:
    """A function, or one stage of it, compiled for the tiles of one IPU.

    Attributes:
        name: Name of the function.
        target: The chip it is compiled for.
        steps: Its steps, in order.
        tensors: Its tensors on tiles, with their lifetimes.
        memory: Bytes of every tile.
        unsupported: Opcodes without a cost, with the layers they are in.
        notes: Caveats for readers of its figures, such as a loop of unknown length.
        kept_activations: The most results of layers that wait for the backward pass at a time,
            recomputed ones included.
        front: What it was made from: a function of TensorFlow, or a graph of Poplar.
    """

    name: str
    target: Target
    steps: tuple[Step, ...]
    tensors: tuple[Tensor, ...]
    memory: TileMemory
    unsupported: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    kept_activations: int = 0
    front: Front = "tensorflow"

    @property
    def cycles(self) -> int:
        """Cycles of one run."""
        return sum(step.cycles for step in self.steps)

    @property
    def recomputed_cycles(self) -> int:
        """Cycles of one run that compute values of the forward pass again."""
        return sum(step.cycles for step in self.steps if step.recomputed)

    @property
    def complete(self) -> bool:
        """Whether everything in it has a cost."""
        return not self.unsupported
