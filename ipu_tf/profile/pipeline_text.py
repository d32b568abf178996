"""Pipelines as text: pure functions from values to lines."""

from __future__ import annotations

from collections.abc import Iterator

from ipu_tf.compiler.device_program import Category
from ipu_tf.compiler.pipeline import PipelineIpu, PipelineProgram, PipelineStage
from ipu_tf.profile import figures
from ipu_tf.profile.pipeline_figures import samples_per_second, seconds
from ipu_tf.profile.table import Row, table
from ipu_tf.profile.units import count, duration, kib, percent

_KEPT: tuple[Category, ...] = ("weights", "optimizer_state", "accumulators", "fifos")
"""Categories that a pipeline's split decides on; the table of IPUs has a column for each."""


def title(program: PipelineProgram) -> str:
    """Returns what a program runs on, to follow its name."""
    chip = program.target
    copies = f"{program.replicas} replicas of " if program.replicas > 1 else ""
    return (
        f" on {program.system}, {copies}{program.replica_ipus} {chip.chip} IPUs, "
        f"{chip.tiles} tiles at {chip.clock_hz / 1e9:g} GHz each; all figures are modelled"
    )


def lines(program: PipelineProgram) -> Iterator[str]:
    """Yields the lines of a pipeline, its title not included."""
    yield from _overview(program)
    yield ""
    yield from table(
        ("stage", "IPU", "forward", "backward", "recomputed", "update", "FIFO KiB", "FIFO depth"),
        map(_stage_row, program.stages),
    )
    yield ""
    header = [category.replace("_", " ") for category in _KEPT]
    yield from table(
        ("tile memory, KiB", "max", "mean", *(f"{name}, mean" for name in header), "verdict"),
        map(_ipu_row, program.ipus),
    )
    yield ""
    for stage in program.stages:
        for opcode, layers in stage.program.unsupported.items():
            where = ", ".join(layer or "(no layer)" for layer in layers)
            yield f"incomplete: '{opcode}' has no cost, in {where}"
    for note in program.notes:
        yield f"note: {note}"


def _overview(program: PipelineProgram) -> Iterator[str]:
    timeline, speed = program.timeline, samples_per_second(program)
    samples = ""
    if speed is not None:
        samples = f"; {program.samples_per_update} samples an update, {speed:,.1f} samples/s"
    again = ", activations computed again" if program.recompute else ""
    yield (
        f"pipeline      {len(program.stages)} stages, {program.schedule} schedule, "
        f"{program.micro_batches} micro-batches an update{again}"
    )
    yield (
        f"time          {program.cycles:,} cycles a weight update, "
        f"{duration(seconds(program))}{samples}"
    )
    yield (
        f"cycles        ramp-up {timeline.ramp_up_cycles:,}, steady {timeline.steady_cycles:,}, "
        f"ramp-down {timeline.ramp_down_cycles:,}, all-reduce {program.all_reduce_cycles:,}, "
        f"update {program.update_cycles:,}"
    )
    whole = max(1, timeline.cycles)
    yield (
        f"waiting       bubble {percent(timeline.bubble_share)} of the IPUs' time, "
        f"links {percent(timeline.link_cycles / whole)}"
    )
    crossing = sum(c.bytes for c in program.crossings if c.phase != "update")
    yield f"links         {count(crossing, 'B')} between stages for a micro-batch"
    slowest = program.limiting_stage
    yield (
        f"limited by    stage {slowest.index} on IPU {slowest.ipu}: "
        f"{slowest.micro_batch_cycles:,} cycles a micro-batch"
    )


def _stage_row(stage: PipelineStage) -> Row:
    cycles = (
        stage.forward_cycles,
        stage.backward_cycles,
        stage.recomputed_cycles,
        stage.update_cycles,
    )
    return (
        str(stage.index),
        str(stage.ipu),
        *(f"{value:,}" for value in cycles),
        kib(stage.fifo_bytes),
        str(stage.fifo_depth),
    )


def _ipu_row(ipu: PipelineIpu) -> Row:
    tiles, kinds = figures.tile_bytes(ipu.memory), figures.by_category(ipu.memory)
    over = int(tiles.max(initial=0)) - ipu.memory.limit_bytes
    stages = ", ".join(map(str, ipu.stages))
    return (
        f"IPU {ipu.ipu} (stage {stages})",
        kib(tiles.max(initial=0)),
        kib(tiles.mean() if tiles.size else 0.0),
        *(kib(kinds[name].mean()) if name in kinds else "0.0" for name in _KEPT),
        "fits" if over <= 0 else f"OUT OF MEMORY by {kib(over)} KiB",
    )
