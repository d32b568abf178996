"""The parts of a program on its IPUs, which take as long as all of it: they run in step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.tile_figures import TileFigures, TileRuns
from ipu_tf.poplar.model.machine import Machine
from ipu_tf.tile_program.program import Step


def on_ipus(steps: Sequence[Step], machine: Machine) -> list[tuple[Step, ...]]:
    """Returns the steps of each IPU, given those of all tiles."""
    if machine.ipus == 1:
        return [tuple(steps)]
    parts_of_supersteps: dict[int, list[Superstep]] = {}
    for one in (superstep for step in steps for superstep in step.supersteps):
        if id(one) not in parts_of_supersteps:
            parts_of_supersteps[id(one)] = _parts(one, machine)
    return [
        tuple(
            dataclasses.replace(
                step, supersteps=tuple(parts_of_supersteps[id(one)][ipu] for one in step.supersteps)
            )
            for step in steps
        )
        for ipu in range(machine.ipus)
    ]


def _parts(superstep: Superstep, machine: Machine) -> list[Superstep]:
    """Returns the part of each IPU in a superstep."""
    if superstep.tiles is None:  # A decision: every IPU does the same.
        return [superstep] * machine.ipus
    by_name = {
        one.name: getattr(superstep.tiles, one.name).counts.reshape(machine.ipus, -1)
        for one in dataclasses.fields(TileFigures)
    }
    parts = []
    for ipu in range(machine.ipus):
        figures = TileFigures(
            **{name: TileRuns.of(counts[ipu]) for name, counts in by_name.items()}
        )
        exchange_bytes = figures.received_bytes.total + figures.sent_bytes.total * (
            superstep.host_cycles > 0
        )
        parts.append(
            dataclasses.replace(
                superstep,
                busy_tile_cycles=figures.compute_cycles.total,
                exchange_bytes=exchange_bytes,
                tiles=figures,
            )
        )
    return parts
