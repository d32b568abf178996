"""Reports as text: pure functions from values to lines."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence

from ipu_tf.compiler.device_program import DeviceProgram, TileMemory
from ipu_tf.compiler.plan import OpShape
from ipu_tf.profile import figures, pipeline_text
from ipu_tf.profile.program import NativeOp, Program, TileOp
from ipu_tf.profile.table import Row, table
from ipu_tf.profile.units import count, duration, kib, percent

_LAYER_WIDTH = 44
_TOP_LAYERS = 10
_NO_LAYER = "(no layer)"


def program_lines(program: Program, *, plans: bool = False) -> Iterator[str]:
    """Yields the lines of one program.

    Args:
        program: The program.
        plans: Whether every tile op is listed with its plan.
    """
    if program.pipeline is not None:
        yield f"Program '{program.name}'{pipeline_text.title(program.pipeline)}"
        yield from _indented(pipeline_text.lines(program.pipeline))
        yield from _indented(_op_lines(program, plans))
        return
    yield f"Program '{program.name}'{_on(program.device)}"
    if program.device is not None:
        yield from _indented(_device_lines(program.device, program.tile_ops))
    yield from _indented(_op_lines(program, plans))


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else line for line in lines)


def _on(device: DeviceProgram | None) -> str:
    if device is None:
        return " is not compiled for the machine"
    chip = device.target
    clock = f"{chip.clock_hz / 1e9:g} GHz"
    return f" on one {chip.chip} IPU, {chip.tiles} tiles at {clock}; all figures are modelled"


def _device_lines(device: DeviceProgram, tile_ops: Sequence[TileOp]) -> Iterator[str]:
    yield from _overview(device, tile_ops)
    yield ""
    yield from _layer_lines(device)
    yield ""
    yield from _memory_lines(device.memory)
    yield ""
    yield from _peak_lines(device)
    yield ""
    for opcode, layers in device.unsupported.items():
        where = ", ".join(layer or _NO_LAYER for layer in layers)
        yield f"incomplete: '{opcode}' has no cost, in {where}"
    for note in device.notes:
        yield f"note: {note}"


def _overview(device: DeviceProgram, tile_ops: Sequence[TileOp]) -> Iterator[str]:
    run_seconds, shares = figures.seconds(device), figures.cycle_shares(device)
    speed = figures.samples_per_second(device)
    samples = ""
    if speed is not None:
        samples = f"; {device.samples_per_run} samples a step, {speed:,.1f} samples/s"
    yield f"time          {device.cycles:,} cycles a step, {duration(run_seconds)}{samples}"
    kinds = {name: getattr(shares, name) for name in ("compute", "exchange", "sync", "host")}
    whole = max(1, shares.total)
    split = ", ".join(f"{name} {percent(cycles / whole)}" for name, cycles in kinds.items())
    yield f"cycles        {split}"
    operations = figures.flops(device)
    rate = operations / run_seconds if run_seconds else 0.0
    used = f"{percent(figures.flop_utilisation(device, tile_ops))} of the chip's peak"
    yield f"arithmetic    {count(operations, 'FLOP')} a step, {count(rate, 'FLOP/s')}, {used}"
    balance = percent(figures.tile_balance(device))
    yield f"tile balance  {balance} of the tiles are busy while any computes"
    yield f"tile memory   {_memory_line(device.memory)}"


def _memory_line(memory: TileMemory) -> str:
    tiles = figures.tile_bytes(memory)
    fullest = int(tiles.argmax()) if tiles.size else 0
    most, mean = (int(tiles.max()), float(tiles.mean())) if tiles.size else (0, 0.0)
    over = most - memory.limit_bytes
    verdict = "fits" if over <= 0 else f"OUT OF MEMORY by {kib(over)} KiB"
    return (
        f"max {kib(most)} KiB (tile {fullest}), mean {kib(mean)} KiB "
        f"of {kib(memory.limit_bytes)} KiB: {verdict}"
    )


def _layer_lines(device: DeviceProgram) -> Iterator[str]:
    layers = figures.layers(device)
    shown = layers[:_TOP_LAYERS]
    whole = max(1, device.cycles)

    def row(layer: figures.LayerCycles) -> Row:
        parts = [f"{layer.by_phase.get(phase, 0):,}" for phase in figures.PHASES]
        return (_shortened(layer.layer), f"{layer.cycles:,}", percent(layer.cycles / whole), *parts)

    title = f"cycles by layer ({len(shown)} of {len(layers)})"
    yield from table((title, "all", "share", *figures.PHASES), map(row, shown))


def _memory_lines(memory: TileMemory) -> Iterator[str]:
    tiles = figures.tile_bytes(memory)
    if not tiles.size:
        return
    fullest = int(tiles.argmax())
    kinds: dict[str, figures.ByCategory] = {
        "always live": memory.always_live,
        "at the peak": memory.not_always_live_peak,
    }
    rows = [
        (f"{category.replace('_', ' ')}, {kind}", kib(values[fullest]), kib(values.mean()))
        for kind, by_category in kinds.items()
        for category, values in by_category.items()
        if values.any()
    ]
    total = ("all", kib(tiles[fullest]), kib(tiles.mean()))
    yield from table(("tile memory, KiB", f"fullest tile ({fullest})", "mean tile"), [*rows, total])


def _peak_lines(device: DeviceProgram) -> Iterator[str]:
    layers = figures.live_at_peak(device)
    shown = layers[:_TOP_LAYERS]
    peak = device.memory.peak_step
    if peak < len(device.steps):
        step = device.steps[peak]
        yield f"peak at step {peak} of {len(device.steps)}: {step.name}, {step.layer or _NO_LAYER}"
    title = f"live at the peak, KiB on all tiles ({len(shown)} of {len(layers)})"
    rows = [
        (_shortened(layer.layer), kib(layer.always_live_bytes), kib(layer.other_bytes))
        for layer in shown
    ]
    yield from table((title, "always live", "rest"), rows)


def _op_lines(program: Program, plans: bool) -> Iterator[str]:
    yield f"{len(program.tile_ops)} tile ops, {len(program.native_ops)} native contractions"
    if plans and program.tile_ops:
        yield from _plan_lines(program.tile_ops)
    for reason, ops in _by_reason(program.native_ops).items():
        names = ", ".join(f"{op.name} ({op.op_type})" for op in ops)
        yield f"native, {reason}: {names}"


def _plan_lines(ops: Iterable[TileOp]) -> Iterator[str]:
    yield f"{'layer':<{_LAYER_WIDTH}} {'op':<30} {'size':<30} {'tiles':>5}  plan"
    for op in ops:
        yield (
            f"{_shortened(op.layer):<{_LAYER_WIDTH}} {op.op_type:<30} "
            f"{_size(op.shape):<30} {op.plan.tiles:>5}  {_splits(op)}"
        )


def _by_reason(ops: Sequence[NativeOp]) -> dict[str, list[NativeOp]]:
    reasons: dict[str, list[NativeOp]] = collections.defaultdict(list)
    for op in ops:
        reasons[op.reason].append(op)
    return reasons


def _shortened(layer: str) -> str:
    layer = layer or _NO_LAYER
    return layer if len(layer) <= _LAYER_WIDTH else "..." + layer[3 - _LAYER_WIDTH :]


def _size(shape: OpShape) -> str:
    sizes = "x".join(str(extent) for extent in shape.extents.values() if extent > 1)
    return f"{sizes or 1} {shape.dtype}"


def _splits(op: TileOp) -> str:
    splits = [f"{name} {parts}" for name, parts in op.plan.splits.items() if parts > 1]
    rounding = ["stochastic rounding"] if op.stochastic_rounding else []
    return ", ".join([*splits, f"{op.plan.partials} partials", *rounding])
