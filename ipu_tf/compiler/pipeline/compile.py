"""From a step and its stages to a program of several IPUs."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ipu_tf.compiler.cache import ProgramCache, fingerprint
from ipu_tf.compiler.compile import build_program
from ipu_tf.compiler.device_program import DeviceProgram, TileMemory
from ipu_tf.compiler.errors import IPUOutOfMemoryError, out_of_memory
from ipu_tf.compiler.hlo import Module, Parameter
from ipu_tf.compiler.memory import CATEGORIES
from ipu_tf.compiler.options import CompilerOptions
from ipu_tf.compiler.passes.pipeline import simplify
from ipu_tf.compiler.pipeline import schedule
from ipu_tf.compiler.pipeline.assignment import Assignment, assign
from ipu_tf.compiler.pipeline.conditionals import split_conditionals
from ipu_tf.compiler.pipeline.fifo import Fifo, fifos, recomputes
from ipu_tf.compiler.pipeline.off_chip import leaves_tiles, off_chip
from ipu_tf.compiler.pipeline.options import PipelineOptions
from ipu_tf.compiler.pipeline.program import (
    Crossing,
    PipelineIpu,
    PipelineProgram,
    PipelineStage,
)
from ipu_tf.compiler.pipeline.split import (
    Cut,
    accumulated,
    cut,
    gradients,
    prepared,
    stage_module,
    with_accumulators,
)
from ipu_tf.compiler.pipeline.timeline import Wiring, timeline
from ipu_tf.compiler.planner.plan import OpShape, Plan
from ipu_tf.machine import streaming

_LOG = logging.getLogger(__name__)
_CACHED_PROGRAMS = 16
_cache: ProgramCache[PipelineProgram] = ProgramCache(_CACHED_PROGRAMS)
_NO_PLANS: Mapping[str, tuple[OpShape, Plan]] = MappingProxyType({})
_HOST_OPCODES = frozenset({"infeed", "outfeed"})


def compile_pipeline(
    module: Module,
    options: CompilerOptions,
    pipeline: PipelineOptions,
    plans: Mapping[str, tuple[OpShape, Plan]] = _NO_PLANS,
    samples_per_run: int = 0,
) -> PipelineProgram:
    """Returns the program of a step whose layers are in stages, compiled once for equal arguments.

    Args:
        module: The step of one micro-batch, as it was traced; it is simplified here.
        options: The chip, how to plan, and what is an error.
        pipeline: The stages, and how they run.
        plans: Plans that tile ops run, by the name of their TensorFlow op; others are planned.
        samples_per_run: Samples of a micro-batch; 0 if unknown.

    Raises:
        IPUOutOfMemoryError: An IPU does not hold its stages, and `options` makes that an error.
        UnsupportedOpcodeError: Opcodes have no cost, and `options` makes that an error.
        ValueError: No system of the chip has so many IPUs, or stages on different IPUs share a
            weight.
    """

    def build() -> PipelineProgram:
        return build_pipeline(simplify(module), options, pipeline, plans, samples_per_run)

    key = fingerprint(module, options, plans, samples_per_run), repr(pipeline)
    program = _cache.get(key, build)
    check_memory(program, options.out_of_memory)
    return program


def build_pipeline(
    module: Module,
    options: CompilerOptions,
    pipeline: PipelineOptions,
    plans: Mapping[str, tuple[OpShape, Plan]] = _NO_PLANS,
    samples_per_run: int = 0,
) -> PipelineProgram:
    """Returns the program of a simplified step, whether it fits or not.

    Arguments and errors are those of `compile_pipeline`.
    """
    system = options.system_of(pipeline.replica_ipus * pipeline.replicas)
    wiring = Wiring(
        system=system,
        ipus=pipeline.ipus,
        replica_ipus=pipeline.replica_ipus,
        replicas=pipeline.replicas,
    )
    module = prepared(module)
    training = any(instruction.phase == "backward" for instruction in module.entry_computation)
    found = _cut(module, pipeline)
    waiting = fifos(found.module, found.assignment, pipeline, training=training)
    stages = tuple(
        _stage(
            found,
            number,
            waiting.get(number, ()),
            options,
            pipeline,
            wiring,
            plans,
            samples_per_run,
        )
        for number in range(pipeline.stages)
    )
    cycles: dict[tuple[int, schedule.Pass], int] = {}
    for stage in stages:
        cycles[stage.index, "forward"] = stage.forward_cycles
        cycles[stage.index, "backward"] = stage.backward_cycles
    played = schedule.slots(
        pipeline.schedule,
        stages=pipeline.stages,
        micro_batches=pipeline.micro_batches,
        training=training,
    )
    return PipelineProgram(
        name=module.name,
        target=options.target,
        system=system.name,
        schedule=pipeline.schedule,
        recompute=pipeline.recompute,
        micro_batches=pipeline.micro_batches,
        replicas=pipeline.replicas,
        replica_ipus=pipeline.replica_ipus,
        stages=stages,
        crossings=found.crossings,
        ipus=_ipus(stages),
        timeline=timeline(played, cycles, found.crossings, wiring),
        update_cycles=_update_cycles(stages, found.crossings, wiring),
        all_reduce_cycles=_reduction_cycles(found, pipeline, wiring),
        samples_per_run=samples_per_run,
        notes=tuple(dict.fromkeys(note for stage in stages for note in stage.program.notes)),
        streaming_limit_bytes=_streaming_limit(wiring),
    )


def check_memory(program: PipelineProgram, when_over: str) -> None:
    """Raises or logs where an IPU does not hold its stages.

    Args:
        program: The program.
        when_over: "raise", "warn" or "report", as in `CompilerOptions.out_of_memory`.

    Raises:
        IPUOutOfMemoryError: It does not, and `when_over` is "raise".
    """
    if when_over == "report":
        return
    if program.streaming_bytes > program.streaming_limit_bytes:
        error = _out_of_streaming_memory(program)
        if when_over == "raise":
            error.compiled = program
            raise error
        _LOG.warning("%s", error)
    for ipu in program.ipus:
        if ipu.memory.fits:
            continue
        fullest = max(
            (program.stages[stage].program for stage in ipu.stages),
            key=lambda stage: int(stage.memory.peak_tile_bytes.max()),
        )
        error = out_of_memory(dataclasses.replace(fullest, memory=ipu.memory), ipu=ipu.ipu)
        if when_over == "raise":
            error.compiled = program
            raise error
        _LOG.warning("%s", error)


def _out_of_streaming_memory(program: PipelineProgram) -> IPUOutOfMemoryError:
    return IPUOutOfMemoryError(
        f"Program '{program.name}': the streaming memory of {program.system} does not hold what is "
        f"offloaded. Use a larger system, or keep more on the tiles. Received: "
        f"{program.streaming_bytes:,} bytes of {program.replicas} replicas, for "
        f"{program.streaming_limit_bytes:,}.",
        program=program.name,
        chip=program.target.chip,
    )


def _cut(module: Module, pipeline: PipelineOptions) -> Cut:
    """Returns the step, cut between its stages.

    Raises:
        ValueError: Stages on different IPUs share a weight.
    """
    layers = pipeline.stage_of_layers
    known: Mapping[str, int] = {}
    if pipeline.stages > 1:
        module, known = split_conditionals(module, layers)
    assignment: Assignment = assign(module, layers, pipeline.stages, known)
    if pipeline.micro_batches > 1 and not accumulated(module):
        module, assignment = with_accumulators(module, assignment)
    found = cut(module, assignment)
    by_name = module.entry_computation.by_name()
    for crossing in found.crossings:
        ends = crossing.source, crossing.destination
        if not crossing.is_variable or len({pipeline.ipus[stage] for stage in ends}) == 1:
            continue
        number = by_name[crossing.name].attributes["parameter_number"]
        parameter = module.parameters[number]
        if parameter.role == "weight":
            raise ValueError(
                f"Program '{module.name}': weight '{parameter.name}' is used by stages "
                f"{ends[0]} and {ends[1]}, which are on different IPUs. Map both stages to one "
                f"IPU, or put the layers that share it in one stage. Received: IPUs of the stages "
                f"{pipeline.ipus!r}."
            )
    return found


def _stage(
    found: Cut,
    stage: int,
    waiting: Sequence[Fifo],
    options: CompilerOptions,
    pipeline: PipelineOptions,
    wiring: Wiring,
    plans: Mapping[str, tuple[OpShape, Plan]],
    samples_per_run: int,
) -> PipelineStage:
    """Returns one stage, compiled for its IPU."""
    on_tiles = [fifo for fifo in waiting if not leaves_tiles(fifo, pipeline.offload)]
    module = stage_module(found, stage, on_tiles)
    try:
        program = build_program(
            module,
            options=options,
            plans=plans,
            samples_per_run=samples_per_run,
        )
    except IPUOutOfMemoryError as error:
        error.ipu = pipeline.ipus[stage]
        error.args = (f"IPU {error.ipu}, stage {stage}: {error}",)
        raise
    forward, backward = _cycles(program, "forward"), _cycles(program, "backward")
    repeats = recomputes(pipeline, stage) and backward > 0
    again = forward - _host_cycles(program) if repeats else 0
    away = off_chip(module, program, pipeline.offload, wiring, fifos=waiting, recomputes=repeats)
    moves = away.streamed + away.gathered
    return PipelineStage(
        index=stage,
        ipu=pipeline.ipus[stage],
        program=away.program,
        forward_cycles=forward + moves.forward,
        backward_cycles=backward + again + moves.backward,
        recomputed_cycles=again,
        update_cycles=_cycles(program, "update") + moves.update,
        fifo_bytes=sum(fifo.bytes for fifo in waiting),
        fifo_depth=max((fifo.depth for fifo in waiting), default=0),
        streamed=away.streamed,
        gathered=away.gathered,
        streaming_bytes=away.streaming_bytes,
    )


def _cycles(program: DeviceProgram, phase: str) -> int:
    return sum(step.cycles for step in program.steps if step.phase == phase)


def _host_cycles(program: DeviceProgram) -> int:
    return sum(step.cycles for step in program.steps if step.opcode in _HOST_OPCODES)


def _ipus(stages: Sequence[PipelineStage]) -> tuple[PipelineIpu, ...]:
    """Returns the IPUs of a replica with the memory of their stages."""
    numbers = sorted({stage.ipu for stage in stages})
    return tuple(
        PipelineIpu(
            ipu=ipu,
            stages=tuple(stage.index for stage in stages if stage.ipu == ipu),
            memory=_together([s.program.memory for s in stages if s.ipu == ipu]),
            streaming_bytes=sum(s.streaming_bytes for s in stages if s.ipu == ipu),
        )
        for ipu in numbers
    )


def _together(memories: Sequence[TileMemory]) -> TileMemory:
    """Returns the memory of an IPU that runs several stages, one after the other.

    What is always live adds up, but for the stacks; of the rest there is one stage's at a time.
    """
    if len(memories) == 1:
        return memories[0]
    fullest = max(memories, key=lambda memory: int(memory.peak_tile_bytes.max()))
    always_live = {
        category: (np.max if category == "stack" else np.sum)(
            [memory.always_live[category] for memory in memories], axis=0
        )
        for category in CATEGORIES
    }
    kept = np.sum(list(always_live.values()), axis=0)
    more = kept - np.sum(list(fullest.always_live.values()), axis=0)
    return dataclasses.replace(
        fullest,
        always_live=always_live,
        live_bytes=fullest.live_bytes + int(more.sum()),
        max_tile_bytes=fullest.max_tile_bytes + int(more.max()),
    )


def _update_cycles(
    stages: Sequence[PipelineStage], crossings: Sequence[Crossing], wiring: Wiring
) -> int:
    """Returns the cycles of the weight update: of the slowest IPU, after transfers."""
    of_ipus = dict.fromkeys(wiring.ipus, 0)
    for stage in stages:
        of_ipus[stage.ipu] += stage.update_cycles
    sent = [crossing for crossing in crossings if crossing.phase == "update"]
    return max(of_ipus.values()) + wiring.transfer_cycles(sent)


def _reduction_cycles(found: Cut, pipeline: PipelineOptions, wiring: Wiring) -> int:
    """Returns the cycles in which replicas add up their gradients, for what each of them updates.

    Where they share out the optimizer state or the weights, each gets a share of the sums; a whole
    weight is then put together again, a shared one by the passes that use it.
    """
    summed = _most_bytes(gradients(found.module), found, pipeline)
    offload = pipeline.offload
    if not offload.shard_optimizer_state and not offload.shard_weights:
        return wiring.all_reduce_cycles(summed)
    cycles = wiring.reduce_scatter_cycles(summed)
    if offload.shard_weights:
        return cycles
    updated = [
        instruction.name
        for instruction in found.module.entry_computation
        if instruction.opcode == "parameter"
        and _is_updated_weight(found.module.parameters[instruction.attributes["parameter_number"]])
    ]
    return cycles + wiring.all_gather_cycles(_most_bytes(updated, found, pipeline))


def _is_updated_weight(parameter: Parameter) -> bool:
    return parameter.role == "weight" and parameter.updated_by is not None


def _most_bytes(names: Iterable[str], found: Cut, pipeline: PipelineOptions) -> int:
    """Returns the bytes of values on the IPU that has most of them."""
    by_name = found.module.entry_computation.by_name()
    of_ipus = dict.fromkeys(pipeline.ipus, 0)
    for name in names:
        of_ipus[pipeline.ipus[found.assignment.stage_of[name]]] += by_name[name].type.bytes
    return max(of_ipus.values())


def _streaming_limit(wiring: Wiring) -> int:
    ipus = wiring.replica_ipus * wiring.replicas
    return streaming.capacity_bytes(wiring.system, 1 << (ipus - 1).bit_length())
