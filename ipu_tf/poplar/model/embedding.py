"""A graph of Poplar as a part of another program: that of a custom op.

Operands and results are tensors of the program around it, so what the host writes and reads of the
graph costs nothing here. Each step of the graph counts as often as the graph says; a loop whose end
depends on data counts once.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.tile_figures import TileFigures, TileRuns
from ipu_tf.poplar.model.graph import HOST_ACCESS, Counts, PoplarGraph, ProgramKind
from ipu_tf.poplar.model.lowering import lower
from ipu_tf.poplar.model.machine import machine_of
from ipu_tf.poplar.model.memory import footprints
from ipu_tf.poplar.model.popops import code_bytes
from ipu_tf.tile_program.embedded_program import EmbeddedProgram
from ipu_tf.tile_program.memory import TileMemory
from ipu_tf.tile_program.program import Step


def embedded_program(graph: PoplarGraph) -> EmbeddedProgram:
    """Returns the cost of a graph of one IPU, without its operands and results."""
    counts = Counts(runs=np.zeros(len(graph.steps.kind), np.int64))
    program = lower(graph, counts).stages[0].program
    notes = [
        f"codelets without an estimate count no cycles: {', '.join(sorted(program.unsupported))}; "
        "set one by Graph::setPerfEstimate"
    ] * bool(program.unsupported)
    if (graph.steps.kind == ProgramKind.REPEAT_WHILE).any():
        notes.append("loops whose end depends on data count once")
    sizes = code_bytes(graph, machine_of(graph.target).target).tolist()
    type_numbers = np.unique(graph.vertex_type).tolist()
    memory = program.memory
    always = memory.always_live
    always_live = always["vertex_state"] + always["constants"] + always["state"] - _of_host(graph)
    return EmbeddedProgram(
        supersteps=tuple(_repeated(one, step) for step in program.steps for one in step.supersteps),
        scratch=tuple(footprints(_peak(memory, "scratch"))),
        exchange_buffers=tuple(footprints(_peak(memory, "exchange_buffers"))),
        always_live=tuple(footprints(np.maximum(0, always_live))),
        code=tuple((graph.types[number].name, sizes[number]) for number in type_numbers),
        exchange_code_bytes=int(always["exchange_code"].max()),
        notes=tuple(notes),
    )


def _peak(memory: TileMemory, category: str) -> NDArray[np.int64]:
    """Returns the bytes of a category at the peak, int64[tiles]."""
    peaks = {str(name): of for name, of in memory.not_always_live_peak.items()}
    return peaks.get(category, np.zeros(len(memory.peak_tile_bytes), np.int64))


def _of_host(graph: PoplarGraph) -> NDArray[np.int64]:
    """Returns the bytes of the operands and results on each tile, int64[tiles]."""
    flags = graph.variable_flags[graph.variable_at(graph.mapped.address)]
    is_of_host = (flags & HOST_ACCESS) != 0
    tiles = graph.target["tiles_per_ipu"]
    return np.bincount(graph.mapped_tile[is_of_host], graph.mapped.bytes[is_of_host], tiles).astype(
        np.int64
    )


def _repeated(superstep: Superstep, step: Step) -> Superstep:
    """Returns the superstep of all runs of a step, under the step's name."""
    times = step.repeats
    tiles = superstep.tiles
    if tiles is not None and times != 1:
        tiles = TileFigures(
            **{
                field.name: TileRuns(
                    values=tuple(times * value for value in getattr(tiles, field.name).values),
                    tiles=getattr(tiles, field.name).tiles,
                )
                for field in dataclasses.fields(TileFigures)
            }
        )
    return dataclasses.replace(
        superstep,
        name=f"{step.layer}: {superstep.name}",
        sync_cycles=times * superstep.sync_cycles,
        exchange_cycles=times * superstep.exchange_cycles,
        compute_cycles=times * superstep.compute_cycles,
        host_cycles=times * superstep.host_cycles,
        busy_tile_cycles=times * superstep.busy_tile_cycles,
        exchange_bytes=times * superstep.exchange_bytes,
        tiles=tiles,
    )
