"""Compiles a step and its stages to a program of several IPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ipu_tf.base import spans
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Module, Parameter
from ipu_tf.compiler.pipeline import schedule
from ipu_tf.compiler.pipeline.assignment import Assignment, assign
from ipu_tf.compiler.pipeline.conditionals import split_conditionals
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.pipeline.equal_stages import StageCompiler
from ipu_tf.compiler.pipeline.fifo import Fifo, fifos
from ipu_tf.compiler.pipeline.off_chip import LEAST_BYTES, leaves_tiles
from ipu_tf.compiler.pipeline.shared_sums import added_by_stages
from ipu_tf.compiler.pipeline.shared_updates import SharedUpdate, share_update
from ipu_tf.compiler.pipeline.split import (
    Cut,
    accumulated,
    cut,
    gradients,
    prepared,
    stage_module,
    with_accumulators,
)
from ipu_tf.compiler.pipeline.stage_placement import (
    CompiledStage,
    memory_of_ipus,
    placed_stages,
    streaming_limit_bytes,
)
from ipu_tf.compiler.pipeline.timeline import ReplicaGroup, Wiring, timeline
from ipu_tf.compiler.recomputation import marks
from ipu_tf.compiler.recomputation.recompute import recomputed
from ipu_tf.machine import host
from ipu_tf.machine.cost import ceil_div
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.tile_program.device_program import Crossing, DeviceProgram, StageProgram
from ipu_tf.tile_program.errors import IPUOutOfMemoryError
from ipu_tf.tile_program.program import TileProgram

_SUM_BYTES = 4
"""Bytes of a sum over a variable: float32."""


def deploy(
    module: Module,
    options: CompilerOptions,
    deployment: Deployment,
    plans: Mapping[str, tuple[OpShape, Plan]],
    samples_per_run: int = 0,
) -> DeviceProgram:
    """Returns the program of a simplified step, whether it fits or not.

    Arguments and errors are those of `compile_program`.
    """
    system = options.system_of(deployment.replica_ipus * deployment.replicas)
    host_replicas = host.sharing_replicas(system, deployment.replicas, deployment.replica_ipus)
    options = dataclasses.replace(options, host_ipus=max(options.host_ipus, host_replicas))
    wiring = Wiring(
        system=system,
        ipus=deployment.ipus,
        replica_ipus=deployment.replica_ipus,
        replicas=deployment.replicas,
        io_tiles=options.io_tiles,
    )
    module = prepared(module)
    training = any(instruction.phase == "backward" for instruction in module.entry_computation)
    checkpoints = (*options.checkpoints, *deployment.checkpoints)
    step = _cut(module, deployment, checkpoints)
    fifos_of_stages = fifos(step.module, step.assignment, deployment, training=training)
    compiled, compiler = [], StageCompiler(options, plans)
    sums = dict.fromkeys(deployment.ipus, 0)
    for number in range(deployment.stages):
        with spans.span(f"stage {number}", "compile", program=module.name):
            update = _updated(step, number, fifos_of_stages.get(number, ()), deployment)
            sums[deployment.ipus[number]] += update.sums
            program = _compiled(update, number, compiler, deployment)
            compiled.append(CompiledStage(number, update, program, fifos_of_stages.get(number, ())))
    stages, notes = placed_stages(compiled, deployment, wiring)
    cycles: dict[tuple[int, schedule.Pass], int] = {}
    for stage in stages:
        cycles[stage.index, "forward"] = stage.forward_cycles
        cycles[stage.index, "backward"] = stage.backward_cycles
    slots = schedule.slots(
        deployment.schedule,
        stages=deployment.stages,
        micro_batches=deployment.micro_batches,
        training=training,
    )
    return DeviceProgram(
        name=module.name,
        target=options.target,
        system=system.name,
        schedule=deployment.schedule,
        recompute=deployment.recompute,
        checkpoints=checkpoints if deployment.recompute and deployment.keeps_checkpoints else (),
        micro_batches=deployment.micro_batches,
        replicas=deployment.replicas,
        replica_ipus=deployment.replica_ipus,
        stages=tuple(stages),
        crossings=step.crossings,
        ipus=memory_of_ipus(stages),
        timeline=timeline(slots, cycles, step.crossings, wiring),
        update_cycles=_update_cycles(stages, step.crossings, wiring),
        all_reduce_cycles=_reduction_cycles(step, deployment, wiring, max(sums.values())),
        samples_per_run=samples_per_run,
        notes=(
            *dict.fromkeys(note for stage in stages for note in stage.program.notes),
            *notes,
        ),
        streaming_limit_bytes=streaming_limit_bytes(wiring),
        round_trip_cycles=host.round_trip_cycles(system),
    )


def stage_modules(module: Module, deployment: Deployment) -> tuple[Module, ...]:
    """Returns the modules of the stages of a simplified step, without recomputation and FIFOs."""
    stash_all = dataclasses.replace(deployment, recompute=False)
    step = _cut(prepared(marks.without_checkpoints(module)), stash_all, ())
    return tuple(stage_module(step, stage, ()) for stage in range(deployment.stages))


def _cut(module: Module, deployment: Deployment, checkpoints: Sequence[str]) -> Cut:
    """Returns the step, cut into its stages.

    Args:
        module: The step, prepared.
        deployment: Its stages.
        checkpoints: Paths of layers after which activations are kept while others are recomputed.

    Raises:
        ValueError: Stages on different IPUs share a weight and may not, or there is no such layer.
    """
    layers = deployment.stage_of_layers
    decided_stages: Mapping[str, int] = {}
    if deployment.stages > 1:
        module, decided_stages = split_conditionals(module, layers)
    assignment: Assignment = assign(
        module, layers, deployment.stages, decided_stages, deployment.shared_layers
    )
    module, assignment = _recomputed(module, assignment, deployment, checkpoints)
    if deployment.micro_batches > 1 and not accumulated(module):
        module, assignment = with_accumulators(module, assignment)
    module, assignment = added_by_stages(module, assignment, deployment.ipus)
    step = cut(module, assignment)
    by_name = module.entry_computation.by_name()
    for crossing in step.crossings:
        ends = crossing.source, crossing.destination
        if not crossing.is_variable or len({deployment.ipus[stage] for stage in ends}) == 1:
            continue
        number = by_name[crossing.name].attributes["parameter_number"]
        parameter = module.parameters[number]
        if parameter.role == "weight" and not deployment.copies_weights:
            raise ValueError(
                f"Program '{module.name}': weight '{parameter.name}' is used by stages "
                f"{ends[0]} and {ends[1]}, which are on different IPUs. Map both stages to one "
                f"IPU, or put the layers that share it in one stage. Received: IPUs of the stages "
                f"{deployment.ipus!r}."
            )
    return step


def _recomputed(
    module: Module, assignment: Assignment, deployment: Deployment, checkpoints: Sequence[str]
) -> tuple[Module, Assignment]:
    """Returns the step whose stages compute activations again."""
    if not deployment.keeps_checkpoints:
        module, checkpoints = marks.without_checkpoints(module), ()
    again = recomputed(
        module,
        recompute=deployment.recompute,
        layers=checkpoints,
        stage_of=assignment.stage_of,
        stages=deployment.stages,
    )
    names = {instruction.name for instruction in again.module.entry_computation}
    stages = {**assignment.stage_of, **again.stage_of}
    stages = {name: stage for name, stage in stages.items() if name in names}
    return again.module, Assignment(stage_of=stages, anywhere=assignment.anywhere)


def _updated(
    step: Cut, stage: int, stage_fifos: Sequence[Fifo], deployment: Deployment
) -> SharedUpdate:
    """Returns the module of a stage, which updates the share of a replica if there are shares."""
    on_tiles = [fifo for fifo in stage_fifos if not leaves_tiles(fifo, deployment.offload)]
    return share_update(
        stage_module(step, stage, on_tiles),
        deployment.offload.update_parts(deployment.replicas),
        least_bytes=LEAST_BYTES,
        shares_weights=deployment.offload.shard_weights,
    )


def _compiled(
    update: SharedUpdate, stage: int, compiler: StageCompiler, deployment: Deployment
) -> TileProgram:
    """Returns a stage, compiled; errors name its IPU."""
    try:
        return compiler.program(update.module)
    except IPUOutOfMemoryError as error:
        error.ipu = deployment.ipus[stage]
        error.args = (f"IPU {error.ipu}, stage {stage}: {error}",)
        raise


def _update_cycles(
    stages: Sequence[StageProgram], crossings: Sequence[Crossing], wiring: Wiring
) -> int:
    """Returns the cycles of the weight update: of the slowest IPU, after transfers."""
    of_ipus = dict.fromkeys(wiring.ipus, 0)
    for stage in stages:
        of_ipus[stage.ipu] += stage.update_cycles
    crossings_of_update = [crossing for crossing in crossings if crossing.phase == "update"]
    return max(of_ipus.values()) + wiring.transfer_cycles(crossings_of_update)


def _reduction_cycles(step: Cut, deployment: Deployment, wiring: Wiring, sums: int) -> int:
    """Returns the cycles in which the replicas share gradients, and weights after the update.

    If the replicas of a group share out the update, each gets a share of the group's sums of
    gradients and adds it up with the other groups. Afterwards they gather the new weights, or so
    much of them as a replica keeps; the passes that use a shared weight gather the rest.

    Args:
        step: The step.
        deployment: How it runs.
        wiring: The IPUs.
        sums: Most sums over whole variables that an IPU makes of sums over shares.
    """
    gradient_bytes = _most_bytes(gradients(step.module), step, deployment)
    parts = deployment.offload.update_parts(deployment.replicas)
    kept_parts = deployment.offload.weight_parts(deployment.replicas)
    if parts == 1:
        return wiring.all_reduce_cycles(gradient_bytes)
    group = ReplicaGroup(replicas=parts)
    share_group = ReplicaGroup(replicas=deployment.replicas // parts, stride=parts)
    gathering = ReplicaGroup(replicas=parts // kept_parts, stride=kept_parts)
    cycles = wiring.reduce_scatter_cycles(gradient_bytes, group)
    cycles += wiring.all_reduce_cycles(ceil_div(gradient_bytes, parts), share_group)
    cycles += wiring.all_reduce_cycles(_SUM_BYTES * sums, group)
    new_weights = [
        instruction.name
        for instruction in step.module.entry_computation
        if instruction.opcode == "parameter"
        and _is_updated_weight(step.module.parameters[instruction.attributes["parameter_number"]])
    ]
    weights = ceil_div(_most_bytes(new_weights, step, deployment), kept_parts)
    return cycles + wiring.all_gather_cycles(weights, gathering)


def _is_updated_weight(parameter: Parameter) -> bool:
    return parameter.role == "weight" and parameter.updated_by is not None


def _most_bytes(names: Iterable[str], step: Cut, deployment: Deployment) -> int:
    """Returns the bytes of values on the IPU with the most of them."""
    by_name = step.module.entry_computation.by_name()
    of_ipus = dict.fromkeys(deployment.ipus, 0)
    for name in names:
        of_ipus[deployment.ipus[step.assignment.stage_of[name]]] += by_name[name].type.bytes
    return max(of_ipus.values())
