"""Device programs as text: pure functions from values to lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ipu_tf.machine.energy import flop_energies
from ipu_tf.profile.figures import energy
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.text import sections
from ipu_tf.profile.text.table import Row, table, without_zeros
from ipu_tf.profile.text.units import count, duration, joules, kib, percent
from ipu_tf.profile.text.words import WORDS
from ipu_tf.programs.calls import HostCall
from ipu_tf.programs.insight import Insight
from ipu_tf.programs.program import TileOp
from ipu_tf.tile_program.device_program import DeviceProgram, IpuMemory, StageProgram
from ipu_tf.tile_program.program import Category

_LASTING: tuple[Category, ...] = ("weights", "optimizer_state", "accumulators", "fifos")
"""Categories that a split over IPUs decides on; the table of IPUs has a column for each."""

_KINDS_OF_MOVES = ("streamed", "gathered", "overlapped", "waiting")
_MOVES = tuple((kind, phase) for kind in _KINDS_OF_MOVES for phase in figures.PHASES)
"""Transfers to the tiles besides the steps of a program, and when they run."""

_A = {"weight update": "an update", "step": "a step", "run": "a run"}


def title(program: DeviceProgram) -> str:
    """Returns the machine of a program, to follow its name."""
    chip, ipus = program.target, program.replica_ipus
    each = f"{ipus} {chip.chip} IPUs" if ipus > 1 else f"one {chip.chip} IPU"
    where = each
    if program.replicas > 1:
        where = f"{program.system}, {program.replicas} replicas of {each}"
    elif ipus > 1:
        where = f"{program.system}, {each}"
    several = " each" if ipus * program.replicas > 1 else ""
    return (
        f" on {where}, {chip.tiles} tiles at {chip.clock_hz / 1e9:g} GHz{several}; "
        "all figures are modelled"
    )


def lines(program: DeviceProgram, tile_ops: Sequence[TileOp], call: HostCall) -> Iterator[str]:
    """Yields the lines of a program, its title not included.

    Args:
        program: The program.
        tile_ops: The contractions it was traced with.
        call: The call from the host that runs it.
    """
    if program.is_pipeline:
        yield from _stages_lines(program, tile_ops, call)
    else:
        yield from _one_program_lines(program, tile_ops, call)
    yield ""
    for opcode, layers in program.unsupported.items():
        where = ", ".join(layer or sections.NO_LAYER for layer in layers)
        yield f"incomplete: '{opcode}' has no cost, in {where}"
    for note in program.notes:
        yield f"note: {note}"
    if program.front == "tensorflow" and flop_energies(program.target) is None:
        chip = program.target.chip
        yield f"note: the energy is unknown: nothing is published for the {chip}"


def _stages_lines(
    program: DeviceProgram, tile_ops: Sequence[TileOp], call: HostCall
) -> Iterator[str]:
    yield from _stages_overview(program, call)
    yield from _energy_lines(program, tile_ops)
    yield ""
    yield from table(
        ("stage", "IPU", "forward", "backward", "recomputed", "update", "FIFO KiB", "FIFO depth"),
        map(_stage_row, program.stages),
    )
    yield ""
    yield from _off_chip_lines(program)
    header = [category.replace("_", " ") for category in _LASTING]
    yield from table(
        ("tile memory, KiB", "max", "mean", *(f"mean {name}" for name in header), "verdict"),
        map(_ipu_row, program.ipus),
    )
    yield ""
    yield from sections.layer_lines(figures.layers(program), WORDS[program.front])


def _one_program_lines(
    program: DeviceProgram, tile_ops: Sequence[TileOp], call: HostCall
) -> Iterator[str]:
    """Yields the lines of a program that one IPU runs, or several in step."""
    ipu, words = program.fullest_ipu, WORDS[program.front]
    stage = program.stages[ipu.stages[0]]
    accumulates = program.micro_batches * program.replicas > 1 and bool(words.phases)
    if accumulates or figures.is_off_chip(stage):
        yield from _update_overview(program, stage, call)
    else:
        yield from _time_lines(program, words.run, call)
        kinds = _by_kind(program)
        if wait_cycles := figures.moved_cycles(stage.waiting, program):
            kinds["waiting for transfers"] = wait_cycles
        yield f"cycles        {_shares(kinds, sum(kinds.values()))}"
    yield from _recomputation_lines(program)
    if words.phases:
        yield from _arithmetic_lines(program, tile_ops)
    balance = percent(figures.tile_balance(program))
    yield f"tile balance  {balance} of the tiles are busy while any computes"
    if words.phases:
        yield from _energy_lines(program, tile_ops)
    for one in program.ipus:
        prefix = f"IPU {one.ipu}: " if program.in_step else ""
        yield f"tile memory   {prefix}{sections.memory_line(one.memory)}"
    yield ""
    yield from _off_chip_lines(program)
    yield from sections.layer_lines(figures.layers(program), WORDS[program.front])
    yield ""
    yield from sections.memory_lines(ipu.memory)
    yield ""
    yield from sections.peak_lines(stage.program)
    if not stage.program.memory.fits:
        yield ""
        yield from sections.overflow_lines(stage.program)


def _update_overview(program: DeviceProgram, stage: StageProgram, call: HostCall) -> Iterator[str]:
    """Yields the parts of a run of a model without stages that accumulates or is replicated."""
    updates = any(step.phase == "update" for step in stage.program.steps)
    unit = "weight update" if updates else "step"
    parts = [f"{program.micro_batches} x micro-batch"]
    if program.all_reduce_cycles:
        parts.append(f"all-reduce over {program.replicas} replicas")
    if updates:
        parts.append("update")
    yield f"{unit:<14}{', '.join(parts)}"
    yield from _time_lines(program, unit, call)
    yield (
        f"cycles        {program.micro_batches} x (forward {stage.forward_cycles:,} + backward "
        f"{stage.backward_cycles:,}), all-reduce {program.all_reduce_cycles:,}, "
        f"update {program.update_cycles:,}"
    )
    kinds = {**_by_kind(program), "all-reduce": program.all_reduce_cycles}
    for name, moves in (
        ("streaming", stage.streamed),
        ("gathering", stage.gathered),
        ("waiting for transfers", stage.waiting),
    ):
        if cycles := figures.moved_cycles(moves, program):
            kinds[name] = cycles
    yield f"spent on      {_shares(kinds, program.cycles)}"


def _by_kind(program: DeviceProgram) -> dict[str, int]:
    shares = figures.cycle_shares(program)
    return {name: getattr(shares, name) for name in ("compute", "exchange", "sync", "host")}


def _shares(cycles: Mapping[str, int], whole: int) -> str:
    return ", ".join(f"{name} {percent(part / max(1, whole))}" for name, part in cycles.items())


def _time_lines(program: DeviceProgram, unit: str, call: HostCall) -> Iterator[str]:
    """Yields the time of a run as the script calls it, and below that of the device alone."""
    if not call.is_known:
        yield f"time          {_time(program, unit)}"
        return
    parts = dict.fromkeys((f"{duration(call.run_seconds)} a {unit}", rate(call, program)))
    runs = f"{call.runs:,} {unit}s in {duration(call.seconds)}" if call.runs > 1 else f"one {unit}"
    yield f"time          {', '.join(parts)}; a call from the host runs {runs}"
    yield f"on the device {_time(program, unit)}"


def rate(call: HostCall | Insight, program: DeviceProgram) -> str:
    """Returns samples a second, or the time of a micro-batch where samples are not known.

    Args:
        call: The call from the host, or the change of a program, that has the rate.
        program: The program as it is.
    """
    speed = call.samples_per_second
    if speed is not None:
        return f"{speed:,.1f} samples/s"
    part = "micro-batch" if program.micro_batches > 1 else "step"
    return f"{1e6 * call.micro_batch_seconds:,.1f} us a {part}"


def _time(program: DeviceProgram, unit: str) -> str:
    """Returns the time of a run on the device, and the samples in it."""
    speed = program.samples_per_second
    samples = ""
    if speed is not None:
        factors = (program.samples_per_run, program.micro_batches, program.replicas)
        several = program.samples_per_update != program.samples_per_run
        of_each = f" ({' x '.join(map(str, factors))})" if several else ""
        number = program.samples_per_update
        run_samples = f"{number} sample{'' if number == 1 else 's'}"
        samples = f"; {run_samples} {_A[unit]}{of_each}, {speed:,.1f} samples/s"
    return f"{program.cycles:,} cycles a {unit}, {duration(figures.seconds(program))}{samples}"


def _arithmetic_lines(program: DeviceProgram, tile_ops: Sequence[TileOp]) -> Iterator[str]:
    operations, seconds = figures.flops(program), figures.seconds(program)
    rate = operations / seconds if seconds else 0.0
    share = f"{percent(figures.flop_utilisation(program, tile_ops))} of the chip's peak"
    yield f"arithmetic    {count(operations, 'FLOP')} a step, {count(rate, 'FLOP/s')}, {share}"


def _energy_lines(program: DeviceProgram, tile_ops: Sequence[TileOp]) -> Iterator[str]:
    whole = energy.joules(program, tile_ops)
    if whole is None:
        return
    each = energy.joules_per_sample(program, tile_ops)
    amount = f"{joules(whole)} a run" if each is None else f"{joules(each)} a sample"
    yield f"energy        at most {amount} for arithmetic; exchange, links, idle chips excluded"


def _stages_overview(program: DeviceProgram, call: HostCall) -> Iterator[str]:
    timeline = program.timeline
    again = ", activations recomputed" if program.recompute else ""
    yield (
        f"pipeline      {len(program.stages)} stages, {program.schedule} schedule, "
        f"{program.micro_batches} micro-batches an update{again}"
    )
    yield from _recomputation_lines(program)
    yield from _time_lines(program, "weight update", call)
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


def _recomputation_lines(program: DeviceProgram) -> Iterator[str]:
    """Yields what a training step computes again, if it has activations to keep."""
    costs = figures.recomputation(program)
    if program.checkpoints:
        yield f"kept after    {', '.join(program.checkpoints)}"
    if costs.cycles:
        yield (
            f"recomputation {costs.forward_operations} forward operations for {costs.layers} "
            f"layers, {costs.cycles:,} cycles a micro-batch; at most {costs.kept_activations} "
            "activations live"
        )


def _off_chip_lines(program: DeviceProgram) -> Iterator[str]:
    """Yields the categories that are not whole on the tiles all the time, and the cost of moves."""
    if not any(figures.is_off_chip(stage) for stage in program.stages):
        return
    yield from table(
        ("off the tiles", "streaming KiB", *(f"{kind} {phase}" for kind, phase in _MOVES)),
        without_zeros(map(_off_chip_row, program.stages)),
    )
    if program.streaming_bytes > program.streaming_limit_bytes:
        yield (
            f"OUT OF STREAMING MEMORY: {count(program.streaming_bytes, 'B')} of "
            f"{count(program.streaming_limit_bytes, 'B')}"
        )
    yield ""


def _off_chip_row(stage: StageProgram) -> Row:
    cycles = (getattr(getattr(stage, kind), phase) for kind, phase in _MOVES)
    return (f"stage {stage.index}", kib(stage.streaming_bytes), *(f"{one:,}" for one in cycles))


def _stage_row(stage: StageProgram) -> Row:
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


def _ipu_row(ipu: IpuMemory) -> Row:
    tiles, kinds = figures.tile_bytes(ipu.memory), figures.by_category(ipu.memory)
    over = int(tiles.max(initial=0)) - ipu.memory.limit_bytes
    stages = ", ".join(map(str, ipu.stages))
    return (
        f"IPU {ipu.ipu} (stage {stages})",
        kib(tiles.max(initial=0)),
        kib(tiles.mean() if tiles.size else 0.0),
        *(kib(kinds[name].mean()) if name in kinds else "0.0" for name in _LASTING),
        "fits" if over <= 0 else f"OUT OF MEMORY by {kib(over)} KiB",
    )
