"""The energy of a program's arithmetic: a bound, from what was measured of the chip."""

from __future__ import annotations

from collections.abc import Iterable

from ipu_tf.machine.energy import flop_energies
from ipu_tf.profile.figures.program_figures import input_types
from ipu_tf.programs.program import TileOp
from ipu_tf.tile_program.device_program import DeviceProgram


def joules(program: DeviceProgram, tile_ops: Iterable[TileOp]) -> float | None:
    """Returns a bound of the energy of a run's arithmetic on all replicas; None if none is known.

    Operations that are no contractions count as float32.

    Args:
        program: The program.
        tile_ops: The contractions it was traced with, as for `figures.input_types`.
    """
    energies = flop_energies(program.target)
    if energies is None:
        return None
    times, energy = program.times, 0.0
    for step, dtype in input_types(program.steps, tile_ops):
        each = energies.joules(dtype, step.plan.partials if step.plan is not None else "float32")
        energy += each * times[step.phase] * step.repeats * step.flops
    return program.replicas * energy


def joules_per_sample(program: DeviceProgram, tile_ops: Iterable[TileOp]) -> float | None:
    """Returns a bound of the energy of a sample's arithmetic; None if no samples are known."""
    energy = joules(program, tile_ops)
    if energy is None or not program.samples_per_update:
        return None
    return energy / program.samples_per_update
