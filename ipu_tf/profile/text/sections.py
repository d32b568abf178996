"""Sections that reports of one IPU and of several share: pure functions from values to lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.text.names import cut_middle
from ipu_tf.profile.text.table import Row, printable, table, without_zeros
from ipu_tf.profile.text.units import kib, percent
from ipu_tf.profile.text.words import WORDS, Words
from ipu_tf.tile_program import errors
from ipu_tf.tile_program.program import TileMemory, TileProgram

LAYER_WIDTH = 44
NO_LAYER = "(no layer)"
_TOP_LAYERS = 10


def memory_line(memory: TileMemory) -> str:
    """Returns the memory in use on the fullest tile and on the mean tile."""
    tiles = figures.tile_bytes(memory)
    fullest = int(tiles.argmax()) if tiles.size else 0
    most, mean = (int(tiles.max()), float(tiles.mean())) if tiles.size else (0, 0.0)
    over = most - memory.limit_bytes
    verdict = "fits" if over <= 0 else f"OUT OF MEMORY by {kib(over)} KiB"
    return (
        f"max {kib(most)} KiB (tile {fullest}), mean {kib(mean)} KiB "
        f"of {kib(memory.limit_bytes)} KiB: {verdict}"
    )


def layer_lines(layers: Sequence[figures.LayerCycles], words: Words) -> Iterator[str]:
    """Yields a table of the layers that take the most cycles.

    Args:
        layers: All layers, the most expensive one first.
        words: What they are called.
    """
    rows = [layer for layer in layers if layer.cycles][:_TOP_LAYERS]
    whole = max(1, sum(layer.cycles for layer in layers))

    def row(layer: figures.LayerCycles) -> Row:
        parts = [f"{layer.by_phase.get(phase, 0):,}" for phase in words.phases]
        share = percent(layer.cycles / whole)
        return (layer.layer or NO_LAYER, f"{layer.cycles:,}", share, *parts)

    title = f"cycles by {words.place} ({len(rows)} of {len(layers)})"
    header = (title, "all", "share", *words.phases)
    yield from table(header, map(row, rows), [layer.cycles / whole for layer in rows])


def memory_lines(memory: TileMemory) -> Iterator[str]:
    """Yields a table of tile memory by category."""
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
    yield from table(
        ("tile memory, KiB", f"fullest tile ({fullest})", "mean tile"),
        [*without_zeros(rows), total],
    )


def peak_lines(device: TileProgram) -> Iterator[str]:
    """Yields when memory is fullest, and a table of the layers that hold most of it then."""
    layers = figures.live_at_peak(device)
    entries = [layer for layer in layers if layer.bytes][:_TOP_LAYERS]
    peak = device.memory.peak_step
    if peak < len(device.steps):
        step = device.steps[peak]
        yield f"peak at step {peak} of {len(device.steps)}: {step.name}, {step.layer or NO_LAYER}"
    title = f"live at the peak, KiB on all tiles ({len(entries)} of {len(layers)})"
    rows = [
        (layer.layer or NO_LAYER, kib(layer.always_live_bytes), kib(layer.other_bytes))
        for layer in entries
    ]
    whole = max(1, sum(layer.bytes for layer in layers))
    bars = [layer.bytes / whole for layer in entries]
    yield from table((title, "always live", "rest"), rows, bars)


def overflow_lines(device: TileProgram) -> Iterator[str]:
    """Yields the largest users of the fullest tile of a program that does not fit, and advice."""
    title = f"largest on tile {device.memory.fullest_tile}, KiB"
    rows = [
        (
            live.tensor.name,
            kib(live.tile_bytes),
            live.tensor.category.replace("_", " "),
            shortened(live.tensor.layer),
        )
        for live in errors.largest_on_fullest_tile(device)
    ]
    yield from table((title, "there", "what for", WORDS[device.front].owner), rows)
    yield "to make room:"
    yield from (f"  {remedy}" for remedy in errors.advice(device))


def shortened(layer: str, width: int = LAYER_WIDTH) -> str:
    """Returns a layer's path for a line of prose, with its middle left out if it is long."""
    return cut_middle(printable(layer or NO_LAYER), width)
