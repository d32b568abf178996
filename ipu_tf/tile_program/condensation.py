"""Condenses device programs: the same figures in reports, fewer tensors."""

from __future__ import annotations

import collections
import dataclasses

from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.program import Tensor, TileProgram


def condensed(program: DeviceProgram) -> DeviceProgram:
    """Returns a program with the same figures, with one tensor in place of many.

    Tensors of the same layer and category that are live at the peak become one tensor, spread
    evenly over all tiles, and another for the bytes that are left over; all others are left out.
    Condensing a program again changes nothing.
    """
    stages = tuple(
        dataclasses.replace(
            stage, program=dataclasses.replace(stage.program, tensors=_at_peak(stage.program))
        )
        for stage in program.stages
    )
    return dataclasses.replace(program, stages=stages)


def _at_peak(program: TileProgram) -> tuple[Tensor, ...]:
    peak, last = program.memory.peak_step, max(0, len(program.steps) - 1)
    together: dict[tuple[object, ...], list[Tensor]] = collections.defaultdict(list)
    for tensor in program.tensors:
        if tensor.always_live or tensor.first_step <= peak <= tensor.last_step:
            together[tensor.layer, tensor.category, tensor.always_live].append(tensor)
    tiles = program.target.tiles
    return tuple(
        dataclasses.replace(
            tensors[0],
            name=tensors[0].category,
            footprint=footprint,
            bytes=0 if number else sum(tensor.bytes for tensor in tensors),
            first_step=0 if tensors[0].always_live else peak,
            last_step=last if tensors[0].always_live else peak,
        )
        for tensors in together.values()
        for number, footprint in enumerate(
            _spread(sum(tensor.footprint.bytes for tensor in tensors), tiles)
        )
    )


def _spread(total: int, tiles: int) -> tuple[Footprint, ...]:
    """Returns the footprints of bytes that are spread evenly: one, or two if tiles differ."""
    each, left_over = divmod(total, tiles)
    even = Footprint(first_tile=0, tiles=tiles, tile_bytes=each)
    remainder = Footprint(first_tile=0, tiles=left_over, tile_bytes=1)
    return tuple(one for one in (even, remainder) if one.bytes) or (even,)
