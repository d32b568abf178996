"""The text of Engine::printProfileSummary."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_tf.poplar.model.graph import PoplarGraph
from ipu_tf.poplar.model.supersteps import GLOBAL_EXCHANGE
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.program import Step

_KB, _MB = 1024, 1024 * 1024


def summary(
    graph: PoplarGraph, program: DeviceProgram, *, busy_cycles: float, steps: bool = False
) -> str:
    """Returns target, graph, memory and execution as text.

    Args:
        graph: The graph.
        program: What ran of it.
        busy_cycles: Compute cycles of a tile, on average, without those of idle workers.
        steps: Whether every step is listed with its cycles.
    """
    lines = [*_target(graph, program), "", *_graph(graph), "", *_memory(program), ""]
    lines += _execution(program, busy_cycles)
    if steps:
        lines += ["", *_steps(program)]
    return "\n".join((*lines, ""))


def _row(name: str, value: str, indent: int = 2) -> str:
    return f"{' ' * indent}{name + ':':<{56 - indent}}{value}"


def _target(graph: PoplarGraph, program: DeviceProgram) -> Iterator[str]:
    target, ipus = program.target, program.replicas * len(program.ipus)
    yield "Target:"
    yield _row("Number of IPUs", f"{ipus}")
    if program.replicas > 1:
        yield _row("Number of replicas", f"{program.replicas}")
    yield _row("Tiles per IPU", f"{target.tiles:,}")
    yield _row("Total Tiles", f"{ipus * target.tiles:,}")
    yield _row("Memory Per-Tile", f"{target.tile_bytes / _KB:,.1f} kB")
    yield _row("Total Memory", f"{ipus * target.tiles * target.tile_bytes / _MB:,.1f} MB")
    yield _row("Clock Speed (approx)", f"{target.clock_hz / 1e6:,.1f} MHz")


def _graph(graph: PoplarGraph) -> Iterator[str]:
    yield "Graph:"
    yield _row("Number of vertices", f"{len(graph.vertex_type):,}")
    yield _row("Number of edges", f"{len(graph.edge_vertex):,}")
    yield _row("Number of variables", f"{len(graph.names):,}")
    yield _row("Number of compute sets", f"{len(graph.sets):,}")


def _memory(program: DeviceProgram) -> Iterator[str]:
    memories = [ipu.memory for ipu in program.ipus]
    tile_bytes = np.concatenate([memory.peak_tile_bytes for memory in memories])
    yield "Memory Usage:"
    yield _row("Total for all tiles, at the peak", f"{int(tile_bytes.sum()):,} B")
    for category in program.memory.always_live:
        always_live_bytes = sum(
            int(memory.always_live[category].sum() + memory.not_always_live_peak[category].sum())
            for memory in memories
        )
        if always_live_bytes:
            yield _row(category.replace("_", " ").capitalize(), f"{always_live_bytes:,} B", 4)
    tile, limit = int(tile_bytes.argmax()), program.memory.limit_bytes
    yield _row("Fullest tile", f"{tile}, {int(tile_bytes[tile]):,} B of {limit:,} B")
    if not program.fits:
        yield _row("Tiles out of memory", f"{int((tile_bytes > limit).sum()):,}")


def _execution(program: DeviceProgram, busy_cycles: float) -> Iterator[str]:
    target = program.target
    sums = np.zeros(5)
    for step in program.stages[0].program.steps:
        for one in step.supersteps:
            across = one.exchange_cycles if one.name == GLOBAL_EXCHANGE else 0
            exchange_cycles = (one.exchange_cycles - across, across)
            step_cycles = (one.total_cycles, *exchange_cycles, one.host_cycles, one.sync_cycles)
            sums += step.repeats * np.array(step_cycles)
    total, exchange, links, host, sync = sums
    busy = sum(
        step.repeats * one.busy_tile_cycles for step in program.steps for one in step.supersteps
    )
    compute = busy / (len(program.ipus) * target.tiles)
    micros = target.seconds(total) * 1e6
    yield "Execution:"
    yield _row("Total cycles", f"{total:,.0f} (approx {micros:,.1f} microseconds)")
    parts = (
        ("compute cycles (including idle threads)", compute),
        ("compute cycles (excluding idle threads)", busy_cycles),
        ("IPU exchange cycles", exchange),
        ("global exchange cycles", links),
        ("host exchange cycles", host),
        ("sync cycles", sync),
    )
    for name, cycles in parts:
        share = 100 * cycles / total if total else 0.0
        yield _row(f"Tile average {name}", f"{cycles:,.1f} ({share:.1f}% of total)")
    for opcode, where in program.unsupported.items():
        yield (
            f"  without cycles: {opcode} in {', '.join(where)}. Give an estimate with "
            "Graph::setPerfEstimate, or the engine the option debug.instrument or cycles="
            "instructions."
        )
    for note in program.notes:
        yield f"  note: {note}"


def _steps(program: DeviceProgram) -> Iterator[str]:
    yield "Steps:"
    for step in program.stages[0].program.steps:
        yield from _step(step)


def _step(step: Step) -> Iterator[str]:
    name = step.layer or step.name
    times = f", {step.repeats:,} times" if step.repeats != 1 else ""
    yield _row(f"{name} ({step.opcode}{times})", f"{step.cycles:,} cycles")
    for one in step.supersteps:
        parts = (
            (one.sync_cycles, "sync"),
            (one.exchange_cycles, "exchange"),
            (one.compute_cycles, "compute"),
            (one.host_cycles, "host"),
        )
        text = ", ".join(f"{cycles:,} {kind}" for cycles, kind in parts if cycles)
        yield f"    {one.name}: {text or 'no cycles'}"
