"""The alternatives to a program that insights compare: one change each, compiled with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.compiler_options import CompilerOptions, PlannerOptions
from ipu_tf.compiler.device_program import DeviceProgram, Schedule
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.pipeline.schedule import schedule_depth
from ipu_tf.compiler.pipeline.search import PipelinedCall, PipelineSearch
from ipu_tf.compiler.pipeline.search_bounds import Bounds
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.programs.insight import Change
from ipu_tf.programs.program import TileOp
from ipu_tf.programs.source import Source

_PROPORTIONS = (0.9, 0.3, 0.1)
"""Shares of tile memory for temporary data that are tried."""

_DOUBLINGS = 16
"""How often a micro-batch is doubled, or halved, at most."""

_BISECTIONS = 2
"""Numbers of samples that are tried between one that fits and one that does not."""

_SCHEDULES: tuple[Schedule, ...] = ("grouped", "interleaved", "sequential")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alternative:
    """A program with a change.

    Attributes:
        change: The changed setting.
        advice: The code that makes the change.
        program: The program with the change.
    """

    change: Change
    advice: str
    program: DeviceProgram


def alternatives(
    now: DeviceProgram, tile_ops: Sequence[TileOp], source: Source
) -> Iterator[Alternative]:
    """Yields programs with one change each; each takes as long as compiling the program.

    Args:
        now: The program as it is.
        tile_ops: The contractions it was traced with.
        source: The input of its compilation.
    """
    yield from _partials(tile_ops, source)
    yield from _proportions(source)
    yield from _tiles(source)
    if source.deployment is not None:
        yield from _accumulation(source, source.deployment)
        if len(now.stages) > 1:
            yield from _schedules(now, source, source.deployment)
            yield from _splits(now, source, source.deployment)
    yield from _batches(now, source)


def _partials(tile_ops: Sequence[TileOp], source: Source) -> Iterator[Alternative]:
    """Yields the program with float16 partials, if products of float16 have others."""
    wide = {
        type(op.plan).__name__
        for op in tile_ops
        if op.shape.dtype == "float16" and op.plan.partials == "float32"
    }
    if wide:
        yield Alternative(
            change="partials",
            advice=_poplar_options("partialsType", "half"),
            program=source.compiled(options=_planning(source, partials="float16")),
        )


def _proportions(source: Source) -> Iterator[Alternative]:
    """Yields the program with other shares of tile memory for the data of running products."""
    options = source.step.options
    for share in _PROPORTIONS:
        known = (options.conv, options.matmul)
        if all(planning.available_memory_proportion == share for planning in known):
            continue
        yield Alternative(
            change="available_memory_proportion",
            advice=_poplar_options("availableMemoryProportion", str(share)),
            program=source.compiled(options=_planning(source, available_memory_proportion=share)),
        )


def _tiles(source: Source) -> Iterator[Alternative]:
    """Yields the program on all tiles, if some are set aside for input and output."""
    if not source.io_tiles:
        return
    options = source.step.options
    target = dataclasses.replace(options.target, tiles=options.target.tiles + source.io_tiles)
    yield Alternative(
        change="io_tiles",
        advice="cfg.io_tiles.num_io_tiles = 0",
        program=source.compiled(options=dataclasses.replace(options, target=target, io_tiles=0)),
    )


def _accumulation(source: Source, deployment: Deployment) -> Iterator[Alternative]:
    """Yields the program with twice the micro-batches of an update, if it accumulates.

    More micro-batches share ramp-up, ramp-down, all-reduce and update.
    """
    if deployment.micro_batches == 1:
        return
    micro_batches = 2 * deployment.micro_batches
    kind = "pipelining" if deployment.stages > 1 else "gradient_accumulation"
    yield Alternative(
        change="gradient_accumulation",
        advice=f"model.set_{kind}_options(gradient_accumulation_steps_per_replica={micro_batches})",
        program=source.compiled(
            deployment=dataclasses.replace(deployment, micro_batches=micro_batches)
        ),
    )


def _schedules(now: DeviceProgram, source: Source, deployment: Deployment) -> Iterator[Alternative]:
    """Yields the pipeline in other orders, and with the other choice of recomputation."""
    training = any(stage.backward_cycles for stage in now.stages)
    for schedule in _SCHEDULES:
        depth = schedule_depth(schedule, deployment.ipus, training=training)
        if schedule == deployment.schedule or deployment.micro_batches % depth:
            continue
        yield Alternative(
            change="schedule",
            advice=f"model.set_pipelining_options(pipeline_schedule={schedule.capitalize()!r})",
            program=source.compiled(deployment=dataclasses.replace(deployment, schedule=schedule)),
        )
    if training:
        recompute = not deployment.recompute
        mode = "RecomputeAndBackpropagateInterleaved" if recompute else "Auto"
        yield Alternative(
            change="recompute",
            advice=f"model.set_pipelining_options(recomputation_mode={mode!r})",
            program=source.compiled(
                deployment=dataclasses.replace(deployment, recompute=recompute)
            ),
        )


def _splits(now: DeviceProgram, source: Source, deployment: Deployment) -> Iterator[Alternative]:
    """Yields the pipeline with the best other split of its layers into as many stages.

    None if the pipeline's IPUs have several stages, or layers share weights.
    """
    stages = len(now.stages)
    if len(set(deployment.ipus)) != stages or stages & (stages - 1):
        return
    search = PipelineSearch(
        now.name.partition(".")[0],
        [PipelinedCall(path=path) for path in _layers(now, deployment)],
        lambda micro_batches: source.step,
        offload=deployment.offload,
        offload_whole=deployment.offload,
    )
    try:
        found = search.run(
            Bounds(
                ipus=stages * deployment.replicas,
                replicas=deployment.replicas,
                micro_batches=(deployment.micro_batches, deployment.micro_batches),
                schedules=(deployment.schedule,),
                recompute=(deployment.recompute,),
            )
        )
    except ValueError:  # Weights that stages share: their layers cannot be on different IPUs.
        return
    if found is not None:
        first = _first_layers(found.best.candidate.options.stage_of_layers, now, deployment)
        yield Alternative(
            change="stages",
            advice=f"begin the stages at {', '.join(first)}",
            program=found.best.program,
        )


def _layers(now: DeviceProgram, deployment: Deployment) -> tuple[str, ...]:
    """Returns the paths of the layers that have a stage, in the order in which they run."""
    known = deployment.stage_of_layers
    run = dict.fromkeys(step.layer for step in now.steps if step.phase == "forward")
    return tuple(path for path in run if path in known)


def _first_layers(
    stages: Mapping[str, int], now: DeviceProgram, deployment: Deployment
) -> tuple[str, ...]:
    """Returns the first layer of each stage but the first."""
    first: dict[int, str] = {}
    for path in _layers(now, deployment):
        first.setdefault(stages[path], path)
    return tuple(path for stage, path in first.items() if stage)


def _batches(now: DeviceProgram, source: Source) -> Iterator[Alternative]:
    """Yields the program with larger micro-batches up to the largest found that fits.

    Doubles the samples while they fit, then looks between the last two numbers; of a program that
    does not fit, halves them until they do.
    """
    if source.at_batch_size is None or not now.samples_per_run:
        return
    samples, other = now.samples_per_run, 0
    for _ in range(_DOUBLINGS):
        other = 2 * samples if now.fits else samples // 2
        if not other:
            return
        tried = _with_batch(other, source, source.at_batch_size)
        if tried is None:
            return
        yield tried
        if tried.program.fits != now.fits:
            break
        samples = other
    fitting, too_large = sorted((samples, other))
    for _ in range(_BISECTIONS):
        between = (fitting + too_large) // 2
        if between == fitting:
            return
        tried = _with_batch(between, source, source.at_batch_size)
        if tried is None:
            return
        yield tried
        fitting, too_large = (between, too_large) if tried.program.fits else (fitting, between)


def _with_batch(
    samples: int, source: Source, at_batch_size: Callable[[int], TracedStep | None]
) -> Alternative | None:
    """Returns the program with other micro-batches; None if its model no longer exists."""
    step = at_batch_size(samples)
    if step is None:
        return None
    program = source.compiled(step=step)
    advice = f"batches of {samples} samples"
    return Alternative(change="micro_batch", advice=advice, program=program)


def _planning(source: Source, **changes: object) -> CompilerOptions:
    """Returns the options with a change of the planner's options for all products."""
    options = source.step.options
    changed: dict[str, PlannerOptions] = {
        name: dataclasses.replace(getattr(options, name), **changes) for name in ("conv", "matmul")
    }
    return dataclasses.replace(options, **changed)  # type: ignore[arg-type]


def _poplar_options(key: str, value: str) -> str:
    kinds = ("convolutions", "matmuls")
    return "; ".join(f'cfg.{kind}.poplar_options = {{"{key}": "{value}"}}' for kind in kinds)
