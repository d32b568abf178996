"""Adds the figures of every tile to device programs, for the files of reports."""

from __future__ import annotations

import dataclasses

from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.program import Step, TileProgram


def detailed(program: DeviceProgram) -> DeviceProgram:
    """Returns a program whose supersteps hold the figures of every tile, where these are known."""
    stages = tuple(
        dataclasses.replace(stage, program=_detailed(stage.program)) for stage in program.stages
    )
    return dataclasses.replace(program, stages=stages)


def _detailed(program: TileProgram) -> TileProgram:
    return dataclasses.replace(program, steps=tuple(map(_with_tiles, program.steps)))


def _with_tiles(step: Step) -> Step:
    supersteps = tuple(
        dataclasses.replace(superstep, tiles=superstep.tile_figures)
        for superstep in step.supersteps
    )
    return dataclasses.replace(step, supersteps=supersteps)
