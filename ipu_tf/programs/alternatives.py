"""The alternatives to a program that insights compare: one change each, compiled with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.compiler_options import CompilerOptions, PlannerOptions
from ipu_tf.compiler.option_plans import plan_of
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.pipeline.schedule import schedule_depth
from ipu_tf.compiler.pipeline.search import PipelinedCall, PipelineSearch
from ipu_tf.compiler.pipeline.search_bounds import Bounds
from ipu_tf.planner.plan import PlanDoesNotFit
from ipu_tf.programs.batch_search import BatchSearch
from ipu_tf.programs.insight import Change
from ipu_tf.programs.program import TileOp
from ipu_tf.programs.replanning import Replanning
from ipu_tf.tile_program.device_program import DeviceProgram, Schedule

_LEAST_SHARE = 0.05
_LARGEST_SHARE = 1.0
"""The bounds of the shares of tile memory for temporary data that are tried."""

_HALVINGS = 3
"""How often the shares between one with which the program fits and one with which it does not are
halved."""

_SPLIT_COMPILATIONS = 4
"""Compilations of the whole step, about, that the search of a split takes besides candidates."""

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
    now: DeviceProgram, tile_ops: Sequence[TileOp], replanning: Replanning
) -> Iterator[Alternative]:
    """Yields programs with one change each, those that mostly gain most first.

    Args:
        now: The program as it is.
        tile_ops: The contractions it was traced with.
        replanning: Plans it again.

    Raises:
        TooMuchWork: The limit of the work is reached.
    """
    deployment = replanning.source.deployment
    yield from _batches(now, replanning)
    yield from _partials(tile_ops, replanning)
    yield from _tiles(replanning)
    if deployment is not None:
        yield from _accumulation(replanning, deployment)
    yield from _proportions(now, tile_ops, replanning)
    if deployment is not None and len(now.stages) > 1:
        yield from _schedules(now, replanning, deployment)
        yield from _splits(now, replanning, deployment)


def _partials(tile_ops: Sequence[TileOp], replanning: Replanning) -> Iterator[Alternative]:
    """Yields the program with float16 partials, if products of float16 have others."""
    if any(op.shape.dtype == "float16" and op.plan.partials == "float32" for op in tile_ops):
        yield from _alternative(
            "partials",
            _poplar_options("partialsType", "half"),
            replanning.compiled(options=_planning(replanning, partials="float16")),
        )


def _proportions(
    now: DeviceProgram, tile_ops: Sequence[TileOp], replanning: Replanning
) -> Iterator[Alternative]:
    """Yields the program with other shares of tile memory for the data of running products.

    A larger share allows more plans, so a program that fits can only gain from more, and one that
    does not fit only from less: the largest share that fits gains most. Shares with which no plan
    changes are not compiled.
    """
    options = replanning.source.step.options
    shares = [each.available_memory_proportion for each in (options.conv, options.matmul)]
    least, too_large = (min(shares), None) if now.fits else (None, max(shares))
    share = _LARGEST_SHARE if now.fits else _LEAST_SHARE
    for _ in range(1 + _HALVINGS):
        new_options = _planning(replanning, available_memory_proportion=share)
        fits = now.fits
        if not tile_ops or _changes_a_plan(tile_ops, new_options):
            program = replanning.compiled(options=new_options)
            fits = program is not None and program.fits
            advice = _poplar_options("availableMemoryProportion", str(share))
            yield from _alternative("available_memory_proportion", advice, program)
        least, too_large = (share, too_large) if fits else (least, share)
        if least is None or too_large is None:
            return
        share = round((least + too_large) / 2, 2)
        if share in (least, too_large):
            return


def _changes_a_plan(tile_ops: Sequence[TileOp], options: CompilerOptions) -> bool:
    """Returns whether other options give any product another plan."""
    plans = {(op.shape, op.plan) for op in tile_ops}
    try:
        return any(plan_of(shape, options) != plan for shape, plan in plans)
    except PlanDoesNotFit:
        return True


def _tiles(replanning: Replanning) -> Iterator[Alternative]:
    """Yields the program on all tiles, if some are set aside for input and output."""
    io_tiles = replanning.source.io_tiles
    if not io_tiles:
        return
    options = replanning.source.step.options
    target = dataclasses.replace(options.target, tiles=options.target.tiles + io_tiles)
    yield from _alternative(
        "io_tiles",
        "cfg.io_tiles.num_io_tiles = 0",
        replanning.compiled(options=dataclasses.replace(options, target=target, io_tiles=0)),
    )


def _accumulation(replanning: Replanning, deployment: Deployment) -> Iterator[Alternative]:
    """Yields the program with twice the micro-batches of an update, if it accumulates.

    More micro-batches share ramp-up, ramp-down, all-reduce and update.
    """
    if deployment.micro_batches == 1:
        return
    micro_batches = 2 * deployment.micro_batches
    kind = "pipelining" if deployment.stages > 1 else "gradient_accumulation"
    new_deployment = dataclasses.replace(deployment, micro_batches=micro_batches)
    yield from _alternative(
        "gradient_accumulation",
        f"model.set_{kind}_options(gradient_accumulation_steps_per_replica={micro_batches})",
        replanning.compiled(deployment=new_deployment),
    )


def _schedules(
    now: DeviceProgram, replanning: Replanning, deployment: Deployment
) -> Iterator[Alternative]:
    """Yields the pipeline in other orders, and with the other choice of recomputation."""
    training = any(stage.backward_cycles for stage in now.stages)
    for schedule in _SCHEDULES:
        depth = schedule_depth(schedule, deployment.ipus, training=training)
        if schedule == deployment.schedule or deployment.micro_batches % depth:
            continue
        new_deployment = dataclasses.replace(deployment, schedule=schedule)
        yield from _alternative(
            "schedule",
            f"model.set_pipelining_options(pipeline_schedule={schedule.capitalize()!r})",
            replanning.compiled(deployment=new_deployment),
        )
    if training:
        recompute = not deployment.recompute
        mode = "RecomputeAndBackpropagateInterleaved" if recompute else "Auto"
        new_deployment = dataclasses.replace(deployment, recompute=recompute)
        yield from _alternative(
            "recompute",
            f"model.set_pipelining_options(recomputation_mode={mode!r})",
            replanning.compiled(deployment=new_deployment),
        )


def _splits(
    now: DeviceProgram, replanning: Replanning, deployment: Deployment
) -> Iterator[Alternative]:
    """Yields the pipeline with the best other split of its layers into as many stages.

    None if the pipeline's IPUs have several stages, or layers share weights.
    """
    stages = len(now.stages)
    if len(set(deployment.ipus)) != stages or stages & (stages - 1):
        return
    replanning.spend(_SPLIT_COMPILATIONS)
    search = PipelineSearch(
        now.name.partition(".")[0],
        [PipelinedCall(path=path) for path in _layers(now, deployment)],
        lambda micro_batches: replanning.source.step,
        offload=deployment.offload,
        offload_whole=deployment.offload,
    )
    try:
        result = search.run(
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
    if result is not None:
        first = _first_layers(result.best.candidate.options.stage_of_layers, now, deployment)
        yield Alternative(
            change="stages",
            advice=f"begin the stages at {', '.join(first)}",
            program=result.best.program,
        )


def _layers(now: DeviceProgram, deployment: Deployment) -> tuple[str, ...]:
    """Returns the paths of the layers that have a stage, in the order in which they run."""
    stages = deployment.stage_of_layers
    run = dict.fromkeys(step.layer for step in now.steps if step.phase == "forward")
    return tuple(path for path in run if path in stages)


def _first_layers(
    stages: Mapping[str, int], now: DeviceProgram, deployment: Deployment
) -> tuple[str, ...]:
    """Returns the first layer of each stage but the first."""
    first: dict[int, str] = {}
    for path in _layers(now, deployment):
        first.setdefault(stages[path], path)
    return tuple(path for stage, path in first.items() if stage)


def _batches(now: DeviceProgram, replanning: Replanning) -> Iterator[Alternative]:
    """Yields the program with larger micro-batches up to the largest found that fits."""
    if replanning.source.at_batch_size is None or not now.samples_per_run:
        return
    search = BatchSearch(now)
    while (samples := search.next_samples()) is not None:
        program = replanning.with_samples(samples)
        if program is None:
            return
        search.add(samples, program)
        yield from _alternative("micro_batch", f"batches of {samples} samples", program)


def _alternative(
    change: Change, advice: str, program: DeviceProgram | None
) -> Iterator[Alternative]:
    """Yields a changed program; nothing if there is none."""
    if program is not None:
        yield Alternative(change=change, advice=advice, program=program)


def _planning(replanning: Replanning, **changes: object) -> CompilerOptions:
    """Returns the options with a change of the planner's options for all products."""
    options = replanning.source.step.options
    fields: dict[str, PlannerOptions] = {
        name: dataclasses.replace(getattr(options, name), **changes) for name in ("conv", "matmul")
    }
    return dataclasses.replace(options, **fields)  # type: ignore[arg-type]


def _poplar_options(key: str, value: str) -> str:
    kinds = ("convolutions", "matmuls")
    return "; ".join(f'cfg.{kind}.poplar_options = {{"{key}": "{value}"}}' for kind in kinds)
