"""Adds the figures of every tile to device programs, for the files of reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ipu_tf.machine.tile_figures import TileFigures
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.program import Step, TileProgram

MOST_NUMBERS = 1 << 24
"""Numbers of the figures of all tiles that a program is given at most: some 120 MB of JSON. A
training step of ResNet-50 has 2 million, one of BERT-Large 7 million."""

_Figures = Mapping[int, TileFigures | None]
"""By the identity of the superstep: equal stages and layers share theirs."""


def detailed(program: DeviceProgram) -> DeviceProgram:
    """Returns a program whose supersteps hold the figures of every tile, where these are known.

    Where these would be more than `MOST_NUMBERS`, the program itself is returned.
    """
    figures = _figures(program)
    if figures is None:
        return program
    stages = tuple(
        dataclasses.replace(stage, program=_detailed(stage.program, figures))
        for stage in program.stages
    )
    return dataclasses.replace(program, stages=stages)


def _figures(program: DeviceProgram) -> _Figures | None:
    figures: dict[int, TileFigures | None] = {}
    numbers = 0
    for superstep in (superstep for step in program.steps for superstep in step.supersteps):
        if id(superstep) not in figures:
            figures[id(superstep)] = superstep.tile_figures
        numbers += _numbers(figures[id(superstep)])
        if numbers > MOST_NUMBERS:
            return None
    return figures


def _numbers(figures: TileFigures | None) -> int:
    if figures is None:
        return 0
    runs = (getattr(figures, field.name) for field in dataclasses.fields(figures))
    return sum(len(each.values) + len(each.tiles) for each in runs)


def _detailed(program: TileProgram, figures: _Figures) -> TileProgram:
    steps = tuple(_with_tiles(step, figures) for step in program.steps)
    return dataclasses.replace(program, steps=steps)


def _with_tiles(step: Step, figures: _Figures) -> Step:
    supersteps = tuple(
        dataclasses.replace(superstep, tiles=figures[id(superstep)])
        for superstep in step.supersteps
    )
    return dataclasses.replace(step, supersteps=supersteps)
