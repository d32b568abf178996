"""A device program without its single tensors: all figures of reports, in little memory."""

from __future__ import annotations

import collections
import dataclasses

from ipu_tf.compiler.device_program import DeviceProgram
from ipu_tf.compiler.layouts.footprint import Footprint
from ipu_tf.compiler.tile_program import Tensor, TileProgram


def condensed(program: DeviceProgram) -> DeviceProgram:
    """Returns a program whose figures are the same, with one tensor for many.

    Of the tensors that are live at the peak, those of a layer and a category are one, which lies
    evenly on all tiles; the others are left out. Condensing it again changes nothing.
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
            footprint=Footprint(first_tile=0, tiles=tiles, tile_bytes=-(-total // tiles)),
            bytes=total,
            first_step=0 if tensors[0].always_live else peak,
            last_step=last if tensors[0].always_live else peak,
        )
        for tensors in together.values()
        for total in [sum(tensor.bytes for tensor in tensors)]
    )
