"""Chooses where to cut a row of layers into stages of equal length.

Works on figures of single layers: cycles, bytes that stay, bytes that wait, bytes that cross. The
figures are those of the whole step on one IPU, so compiled stages differ a little; a caller that
chooses between cuts compiles them.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.assembly import build_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.pipeline.assignment import assign, layer_stage
from ipu_tf.compiler.pipeline.deployment import ALL_ON_TILES, Offload
from ipu_tf.compiler.pipeline.fifo import stashed
from ipu_tf.compiler.pipeline.schedule import waiting_micro_batches
from ipu_tf.compiler.pipeline.split import cut, prepared
from ipu_tf.machine.links import Route, bytes_per_second
from ipu_tf.machine.system import System
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.tile_program.device_program import DeviceProgram, Schedule
from ipu_tf.tile_program.program import Category

_ALWAYS_LIVE = frozenset[Category](
    {"weights", "optimizer_state", "accumulators", "state", "constants"}
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerFigures:
    """Cycles and bytes of a row of layers. Arrays have an entry for every layer.

    Attributes:
        forward_cycles: int64[layers], of one micro-batch.
        backward_cycles: int64[layers], of one micro-batch.
        kept_bytes: int64[layers], weights, their state and their accumulators.
        waiting_bytes: int64[layers], values of the forward pass that the backward pass reads.
        crossing_bytes: int64[layers + 1], values that cross a cut before a layer, forward.
        further_bytes: int64[layers], other bytes that a compiled pipeline has shown.
    """

    forward_cycles: NDArray[np.int64]
    backward_cycles: NDArray[np.int64]
    kept_bytes: NDArray[np.int64]
    waiting_bytes: NDArray[np.int64]
    crossing_bytes: NDArray[np.int64]
    further_bytes: NDArray[np.int64]

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.forward_cycles)


def layer_figures(
    module: Module,
    places: Mapping[str, int],
    options: CompilerOptions,
    plans: Mapping[str, tuple[OpShape, Plan]],
    offload: Offload = ALL_ON_TILES,
) -> LayerFigures:
    """Returns the figures of the layers of a simplified step on one IPU.

    Args:
        module: The step, with its accumulators if it has any.
        places: Place of each layer, from 0, in the order in which they run, by its path.
        options: The chip, and options of the planner.
        plans: Plans that tile ops run.
        offload: The categories that are not on the tiles; shares count as whole variables.
    """
    module = prepared(module)
    count = max(places.values()) + 1
    program = build_program(module, options=options, plans=plans)
    assignment = assign(module, places, count)
    cycles = {phase: np.zeros(count, np.int64) for phase in ("forward", "backward", "update")}
    for step in program.steps:
        place = assignment.stage_of.get(step.name, layer_stage(step.layer, places))
        if place is not None and step.opcode not in ("infeed", "outfeed"):
            cycles[step.phase][place] += step.cycles
    always_live_bytes, stash_bytes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    on_tiles = _ALWAYS_LIVE - _offloaded(offload)
    for tensor in program.tensors:
        place = layer_stage(tensor.layer, places)
        if tensor.always_live and tensor.category in on_tiles and place is not None:
            always_live_bytes[place] += tensor.bytes
    if not offload.activations:
        for place, waiting_bytes in stashed(module, assignment).items():
            stash_bytes[place] += waiting_bytes
    crossing = np.zeros(count + 1, np.int64)
    furthest: dict[str, tuple[int, int, int]] = {}
    for value in cut(module, assignment).crossings:
        if value.phase == "forward" and value.source < value.destination:
            _, end, _ = furthest.get(value.name, (0, 0, 0))
            furthest[value.name] = value.source, max(end, value.destination), value.bytes
    for first, end, sent_bytes in furthest.values():
        crossing[first + 1 : end + 1] += sent_bytes
    return LayerFigures(
        forward_cycles=cycles["forward"],
        backward_cycles=cycles["backward"],
        kept_bytes=always_live_bytes,
        waiting_bytes=stash_bytes,
        crossing_bytes=crossing,
        further_bytes=np.zeros(count, np.int64),
    )


def _offloaded(offload: Offload) -> frozenset[Category]:
    """Returns the categories that are in streaming memory."""
    flags: dict[Category, bool] = {
        "optimizer_state": offload.optimizer_state,
        "accumulators": offload.accumulators,
        "weights": offload.weights,
    }
    return frozenset(category for category, is_away in flags.items() if is_away)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRequest:
    """The requested stages of a row of layers.

    Attributes:
        stages: Number of stages.
        schedule: The order in which they will run.
        recompute: Whether the backward pass recomputes activations.
        chip_bytes: Bytes that the layers of a stage may take on its IPU.
        cycles_per_byte: Cycles that a byte takes to the next stage.
        together: Layers that no stage may begin with: they share weights with an earlier layer.
    """

    stages: int
    schedule: Schedule
    recompute: bool
    chip_bytes: int
    cycles_per_byte: float
    together: frozenset[int] = frozenset()


def cycles_per_byte(system: System) -> float:
    """Returns the cycles that a byte takes between neighbouring IPUs of a system."""
    return system.target.clock_hz / bytes_per_second(system, Route(rail_hops=1))


def even_stages(layers: int, stages: int) -> tuple[int, ...]:
    """Returns the stage of every layer, with the same number of layers in every stage."""
    return tuple(layer * stages // layers for layer in range(layers))


def balanced_stages(figures: LayerFigures, request: BalanceRequest) -> tuple[int, ...]:
    """Returns the stage of every layer, so that the longest stage is as short as possible.

    Dynamic programming over the cuts. A stage that does not fit its IPU counts as longer than
    any that fits, by its bytes: if nothing fits, the cut overflows least.

    Args:
        figures: The layers.
        request: The stages.

    Raises:
        ValueError: There are fewer layers, or groups of layers that share weights, than stages.
    """
    layers, stages = figures.layers, request.stages
    begins = [layer for layer in range(1, layers) if layer not in request.together]
    if len(begins) + 1 < stages:
        raise ValueError(
            f"A pipeline of {stages} stages needs as many layers that share no weights. Use fewer "
            f"stages. Received: {layers} layers, of which {len(begins) + 1} may begin a stage."
        )
    best_of: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for stage in range(stages):
        costs = _Costs(figures, request, stage)
        ends: dict[int, tuple[float, tuple[int, ...]]] = {}
        for end in [layers] if stage == stages - 1 else begins:
            options = (
                (max(longest, costs.of(begin, end)), (*cuts, end))
                for begin, (longest, cuts) in best_of.items()
                if begin < end
            )
            shortest = min(options, default=None)
            if shortest is not None:
                ends[end] = shortest
        best_of = ends
    ends_of_stages = best_of[layers][1]
    return tuple(bisect.bisect_right(ends_of_stages, layer) for layer in range(layers))


def corrected(
    figures: LayerFigures, request: BalanceRequest, stages: Sequence[int], program: DeviceProgram
) -> LayerFigures:
    """Returns the figures of layers, corrected by those of a compiled pipeline.

    Scales the cycles of a stage's layers to those of the stage. If its fullest tile, taken for all
    tiles, uses more bytes than the figures say, the layers share the difference.

    Args:
        figures: The layers.
        request: The stages they were cut into.
        stages: The stage of every layer.
        program: The pipeline, every stage on its own IPU.
    """
    forward, backward = figures.forward_cycles.copy(), figures.backward_cycles.copy()
    further = figures.further_bytes.copy()
    for stage in program.stages:
        begin, end = bisect.bisect_left(stages, stage.index), bisect.bisect(stages, stage.index)
        costs = _Costs(figures, request, stage.index)
        of_layers = slice(begin, end)
        forward[of_layers] = _scaled(forward[of_layers], stage.forward_cycles)
        alone = stage.backward_cycles - stage.recomputed_cycles
        backward[of_layers] = _scaled(backward[of_layers], alone)
        peak_bytes = int(program.ipus[stage.ipu].memory.peak_tile_bytes.max())
        overflow_bytes = peak_bytes * program.target.tiles - costs.bytes_of(begin, end)
        further[of_layers] += overflow_bytes // (end - begin)
    return dataclasses.replace(
        figures, forward_cycles=forward, backward_cycles=backward, further_bytes=further
    )


def _scaled(cycles: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Returns cycles that add up to a total, except for rounding."""
    layer_cycles = int(cycles.sum())
    return (cycles * (total / layer_cycles)).astype(np.int64) if layer_cycles else cycles


class _Costs:
    """The cost of each range of layers as a certain stage."""

    def __init__(self, figures: LayerFigures, request: BalanceRequest, stage: int) -> None:
        self._figures, self._request = figures, request
        self._again = request.recompute and stage < request.stages - 1
        self._stashes = 1 + waiting_micro_batches(
            request.schedule,
            stages=request.stages,
            training=True,
            maker=(stage, "forward"),
            reader=(stage, "backward"),
        )
        backward = figures.backward_cycles
        backward = backward + figures.forward_cycles if self._again else backward
        self._forward, self._backward = _before(figures.forward_cycles), _before(backward)
        self._always_live = _before(figures.kept_bytes)
        self._stash = _before(figures.waiting_bytes)
        self._further = _before(figures.further_bytes)

    def of(self, begin: int, end: int) -> float:
        """Returns the cycles of layers `begin` to `end - 1`, links included."""
        over = self.bytes_of(begin, end) / self._request.chip_bytes
        if over > 1:
            return math.ldexp(over, 60)
        crossing = self._figures.crossing_bytes
        links = float(crossing[begin] + crossing[end]) * self._request.cycles_per_byte
        forward, backward = self.passes_of(begin, end)
        if self._request.schedule == "interleaved":
            # Some stages run forward while others run backward: all wait for the longer pass.
            return 2 * max(forward, backward) + links
        return forward + backward + links

    def passes_of(self, begin: int, end: int) -> tuple[int, int]:
        """Returns the cycles of the forward and of the backward pass of layers."""
        forward = self._forward[end] - self._forward[begin]
        return int(forward), int(self._backward[end] - self._backward[begin])

    def bytes_of(self, begin: int, end: int) -> int:
        """Returns the bytes that layers take on their IPU."""
        stash = int(self._stash[end] - self._stash[begin])
        inputs = int(self._figures.crossing_bytes[begin])
        waits = self._stashes * (inputs if self._again else stash)
        always_live_bytes = int(self._always_live[end] - self._always_live[begin])
        further = int(self._further[end] - self._further[begin])
        return always_live_bytes + waits + (stash if self._again else 0) + further


def _before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the sum of the entries before each entry, and the sum of all."""
    return np.concatenate([[0], np.cumsum(values)])
