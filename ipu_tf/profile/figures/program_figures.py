"""The figures that reports print: sums over the steps and the memory of a device program.

All of them are modelled: cycles of the cost model, bytes of the tile mapping. Nothing here is
measured.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.hlo.module import LOSS, METRICS
from ipu_tf.compiler.pipeline import schedule
from ipu_tf.machine.target import Target
from ipu_tf.programs.op_names import own_name
from ipu_tf.programs.program import TileOp
from ipu_tf.tile_program.device_program import DeviceProgram, StageProgram
from ipu_tf.tile_program.moves import NO_MOVES, Moves
from ipu_tf.tile_program.phase import Phase
from ipu_tf.tile_program.program import Category, Step, TileMemory, TileProgram

_FLOPS_PER_MAC = 2

PHASES: tuple[Phase, ...] = ("forward", "backward", "update")
"""The phases of a training step, in order."""

HOST = "(host)"
"""Stands for a layer in transfers of inputs and outputs between the host and the tiles."""

_HOST_OPCODES = frozenset({"infeed", "outfeed"})

ByCategory: TypeAlias = Mapping[Category, NDArray[np.int64]]
"""Bytes of every tile, by category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleShares:
    """Cycles by the activity of the tiles.

    Attributes:
        compute: Cycles in which vertices run, of the slowest tile of each superstep.
        exchange: Cycles in which tiles send to each other.
        sync: Cycles of synchronisation.
        host: Cycles in which the tiles wait for the host.
    """

    compute: int = 0
    exchange: int = 0
    sync: int = 0
    host: int = 0

    @property
    def total(self) -> int:
        """All cycles."""
        return self.compute + self.exchange + self.sync + self.host

    def __add__(self, other: CycleShares) -> CycleShares:
        return CycleShares(
            compute=self.compute + other.compute,
            exchange=self.exchange + other.exchange,
            sync=self.sync + other.sync,
            host=self.host + other.host,
        )

    def __mul__(self, times: int) -> CycleShares:
        return CycleShares(
            compute=self.compute * times,
            exchange=self.exchange * times,
            sync=self.sync * times,
            host=self.host * times,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCycles:
    """Cycles of one Keras layer.

    Attributes:
        layer: Its path, `HOST` for inputs and outputs, "" for steps of no layer.
        by_phase: Cycles by phase of the training step.
        flops: Floating point operations of all phases.
        flop_utilisation: Share of the chip's peak that it reaches while it runs, in [0, 1].
        exchange_bytes: Bytes that its tiles receive, those of transfers with the host included.
    """

    layer: str
    by_phase: Mapping[Phase, int]
    flops: int
    flop_utilisation: float = 0.0
    exchange_bytes: int = 0

    @property
    def cycles(self) -> int:
        """Cycles of all phases."""
        return sum(self.by_phase.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLayer:
    """Memory of one Keras layer at the peak.

    Bytes are those that its tensors take on all tiles, padding and copies included.

    Attributes:
        layer: Its path, "" for tensors of no layer.
        always_live_bytes: Bytes on all tiles that are never freed.
        other_bytes: All other bytes on all tiles.
    """

    layer: str
    always_live_bytes: int
    other_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes of both."""
        return self.always_live_bytes + self.other_bytes


def cycles_of(step: Step) -> CycleShares:
    """Returns the cycles of a step, all its repetitions."""
    steps = step.supersteps
    return CycleShares(
        compute=step.repeats * sum(superstep.compute_cycles for superstep in steps),
        exchange=step.repeats * sum(superstep.exchange_cycles for superstep in steps),
        sync=step.repeats * sum(superstep.sync_cycles for superstep in steps),
        host=step.repeats * sum(superstep.host_cycles for superstep in steps),
    )


def cycle_shares(program: DeviceProgram) -> CycleShares:
    """Returns the sum of the cycles of a replica's stages for a run; those in step count once."""
    return sum((stage_shares(stage, program) for stage in program.timed_stages), CycleShares())


def stage_shares(stage: StageProgram, program: DeviceProgram) -> CycleShares:
    """Returns the cycles of a stage for a run, recomputation included."""
    times = program.times
    shares = (cycles_of(step) * times[step.phase] for step in stage.program.steps)
    return sum(shares, CycleShares())


def slots(program: DeviceProgram) -> list[schedule.Slot]:
    """Returns the passes of a run that go on at the same time, slot after slot."""
    stages = len(program.stages)
    if program.in_step:
        return [
            tuple(
                schedule.Work(stage=stage, direction="forward", micro_batch=0)
                for stage in range(stages)
            )
        ]
    training = any(stage.backward_cycles for stage in program.stages)
    return list(
        schedule.slots(
            program.schedule,
            stages=stages,
            micro_batches=program.micro_batches,
            training=training,
        )
    )


def seconds(program: DeviceProgram) -> float:
    """Returns the seconds of one run at the clock of the chip."""
    return program.target.seconds(program.cycles)


def flops(program: DeviceProgram) -> int:
    """Returns the floating point operations of one run of a replica."""
    times = program.times
    return sum(times[step.phase] * step.repeats * step.flops for step in program.steps)


def flop_utilisation(program: DeviceProgram, tile_ops: Iterable[TileOp]) -> float:
    """Returns the share of the peak of a replica's IPUs that a run reaches, in [0, 1].

    The peak of a step is that of its inputs' type (`input_types`).

    Args:
        program: The program.
        tile_ops: The contractions it was traced with, as for `input_types`.
    """
    needed_cycles = sum(_needed_cycles(program, tile_ops))
    available = program.cycles * len(program.ipus)
    return needed_cycles / available if available else 0.0


def _needed_cycles(program: DeviceProgram, tile_ops: Iterable[TileOp]) -> Iterator[float]:
    """Yields for every step the cycles that its operations of a run would take at the peak."""
    times = program.times
    for step, dtype in input_types(program.steps, tile_ops):
        yield times[step.phase] * peak_cycles(step, dtype, program.target)


def input_types(steps: Iterable[Step], tile_ops: Iterable[TileOp]) -> Iterator[tuple[Step, str]]:
    """Yields every step with the type of its inputs: float32 for steps that are no contraction.

    Args:
        steps: The steps.
        tile_ops: The contractions the program was traced with: steps of earlier files have no type.
    """
    dtypes = {op.name: op.shape.dtype for op in tile_ops}
    for step in steps:
        dtype = step.dtype
        if not dtype and step.plan is not None:
            dtype = dtypes.get(own_name(step.op_name), "")
        yield step, dtype or "float32"


def peak_cycles(step: Step, dtype: str, chip: Target) -> float:
    """Returns the cycles that a step takes at the peak of a chip, all its repetitions.

    Args:
        step: The step.
        dtype: The type of its inputs.
        chip: The chip.
    """
    rate = chip.macs_per_cycle(dtype) * chip.tiles
    return step.repeats * step.flops / (_FLOPS_PER_MAC * rate)


def tile_balance(program: DeviceProgram) -> float:
    """Returns the mean share of a chip's tiles that are busy while any is, in [0, 1]."""
    busy = available = 0
    times = program.times
    for step in program.steps:
        repeats = times[step.phase] * step.repeats
        for superstep in step.supersteps:
            busy += repeats * superstep.busy_tile_cycles
            available += repeats * superstep.compute_cycles * program.target.tiles
    return busy / available if available else 0.0


def layers(program: DeviceProgram, tile_ops: Iterable[TileOp] = ()) -> tuple[LayerCycles, ...]:
    """Returns the cycles of every layer for a run of a replica, the most expensive one first.

    Stages overlap, so the sum of all layers may be larger than the cycles of the program.

    Args:
        program: The program.
        tile_ops: The contractions it was traced with, as for `flop_utilisation`.
    """
    times = program.times
    cycles: dict[str, dict[Phase, int]] = collections.defaultdict(dict)
    operations: collections.Counter[str] = collections.Counter()
    exchange_totals: collections.Counter[str] = collections.Counter()
    exact_flops: dict[str, float] = collections.defaultdict(float)
    timed_steps = sum(len(stage.program.steps) for stage in program.timed_stages)
    at_peaks = _needed_cycles(program, tile_ops)
    for number, (step, at_peak) in enumerate(zip(program.steps, at_peaks, strict=True)):
        layer = place(step)
        phases, repeats = cycles[layer], times[step.phase]
        own_cycles = repeats * step.cycles * (number < timed_steps)
        phases[step.phase] = phases.get(step.phase, 0) + own_cycles
        operations[layer] += repeats * step.repeats * step.flops
        exchange_bytes = sum(superstep.exchange_bytes for superstep in step.supersteps)
        exchange_totals[layer] += repeats * step.repeats * exchange_bytes
        exact_flops[layer] += at_peak * len(program.timed_stages) / len(program.stages)
    entries = [
        LayerCycles(
            layer=layer,
            by_phase=phases,
            flops=operations[layer],
            flop_utilisation=exact_flops[layer] / max(1, sum(phases.values())),
            exchange_bytes=exchange_totals[layer],
        )
        for layer, phases in cycles.items()
    ]
    return tuple(sorted(entries, key=lambda entry: (-entry.cycles, entry.layer)))


def place(step: Step) -> str:
    """Returns the layer of a step, `HOST` for inputs and outputs, "" for none."""
    if step.layer or step.opcode not in _HOST_OPCODES:
        return step.layer
    return HOST


def live_at_peak(program: TileProgram) -> tuple[LiveLayer, ...]:
    """Returns the memory of every layer of a stage at its peak, the largest first."""
    return live_at(program, program.memory.peak_step)


def live_at(program: TileProgram, step: int) -> tuple[LiveLayer, ...]:
    """Returns the memory of every layer of a stage while a step runs, the largest first.

    Args:
        program: The program of the stage.
        step: Index of the step.
    """
    always: dict[str, int] = collections.defaultdict(int)
    others: dict[str, int] = collections.defaultdict(int)
    for tensor in program.tensors:
        if tensor.always_live:
            always[tensor.layer] += tensor.footprint.bytes
        elif tensor.first_step <= step <= tensor.last_step:
            others[tensor.layer] += tensor.footprint.bytes
    entries = [
        LiveLayer(layer=layer, always_live_bytes=always[layer], other_bytes=others[layer])
        for layer in dict.fromkeys([*always, *others])
    ]
    return tuple(sorted(entries, key=lambda entry: (-entry.bytes, entry.layer)))


def tile_bytes(memory: TileMemory) -> NDArray[np.int64]:
    """Returns int64[tiles]: bytes in use on every tile at the peak."""
    parts = [*memory.always_live.values(), *memory.not_always_live_peak.values()]
    return np.sum(parts, axis=0, dtype=np.int64) if parts else np.zeros(0, np.int64)


def by_category(memory: TileMemory) -> dict[Category, NDArray[np.int64]]:
    """Returns int64[tiles] for every category in use: bytes at the peak."""
    of_categories: dict[Category, NDArray[np.int64]] = dict(memory.always_live)
    for category, values in memory.not_always_live_peak.items():
        of_categories[category] = (
            of_categories[category] + values if category in of_categories else values
        )
    return {category: values for category, values in of_categories.items() if values.any()}


def fits(memory: TileMemory) -> bool:
    """Returns whether every tile has enough memory."""
    return int(tile_bytes(memory).max(initial=0)) <= memory.limit_bytes


def is_off_chip(stage: StageProgram) -> bool:
    """Returns whether a stage has variables that are not whole on its tiles all the time."""
    return stage.streaming_bytes > 0 or stage.gathered != NO_MOVES


def moved_cycles(moves: Moves, program: DeviceProgram) -> int:
    """Returns the cycles that moves take in a run."""
    return program.micro_batches * (moves.forward + moves.backward) + moves.update


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputation:
    """What a program computes twice, and keeps.

    Attributes:
        layers: Layers that run in the forward pass.
        recomputed_layers: Layers of them that the backward pass runs forward once more.
        kept_activations: The most results of layers that wait for the backward pass at a time, of
            a micro-batch on one IPU, recomputed ones included.
        cycles: Cycles of a micro-batch that compute values again, of all stages.
    """

    layers: int
    recomputed_layers: int
    kept_activations: int
    cycles: int

    @property
    def forward_operations(self) -> int:
        """Forward passes of layers, recomputation included."""
        return self.layers + self.recomputed_layers


def recomputation(program: DeviceProgram) -> Recomputation:
    """Returns what a program computes twice, and keeps, for a micro-batch."""
    apart = ("", LOSS, METRICS)
    steps = [step for step in program.steps if step.layer not in apart]
    return Recomputation(
        layers=len({step.layer for step in steps if step.phase == "forward"}),
        recomputed_layers=len({step.layer for step in steps if step.recomputed}),
        kept_activations=max(stage.program.kept_activations for stage in program.stages),
        cycles=sum(stage.recomputed_cycles for stage in program.stages),
    )
