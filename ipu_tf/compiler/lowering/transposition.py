"""Transpositions of tensors where they lie, before tiles read them in another order.

As poplibs regroups them (popops, Rearrange.cpp): by its vertex in blocks, else element by element.
The copy is there until the operation that reads it has run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.machine import vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import NOTHING, Traffic, move

BLOCK = 4
"""Rows and columns that the vertex transposes at once (poplin, Transpose2d)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transposition:
    """The transposition of an operand.

    Attributes:
        stage: What tiles compute.
        by_elements: Whether it moves element by element. Such a copy also puts together what comes
            in odd pieces.
    """

    stage: ComputeStage
    by_elements: bool

    @property
    def copy(self) -> Footprint:
        """The memory of the transposed operand."""
        return self.stage.where.footprint


def transposition(
    where: Placement, dtype: str, target: Target, *, by_elements: bool, filled: float = 1.0
) -> Transposition:
    """Returns the transposition of every tile's share of a tensor.

    Args:
        where: The tensor's place.
        dtype: Its type.
        target: The machine.
        by_elements: Whether it moves element by element.
        filled: The elements that move, zeros included, over those of the tensor.
    """
    elements = math.ceil(where.tile_elements * filled)
    if by_elements:
        vertex = vertices.copy(elements, dtype, target, piece_elements=1)
    else:
        blocks = ceil_div(elements, BLOCK * BLOCK)
        vertex = vertices.transpose(BLOCK * blocks, BLOCK, dtype, target)
    stage = ComputeStage(name="transpose", where=where, vertex=vertex)
    return Transposition(stage=stage, by_elements=by_elements)


def moved(
    operands: Sequence[Placement],
    destination: Placement,
    transposed: Mapping[int, Transposition],
) -> Traffic:
    """Returns the traffic that brings operands to a placement, some of them transposed before."""
    traffic = NOTHING
    for index, operand in enumerate(operands):
        one = move(operand, destination)
        if index in transposed and transposed[index].by_elements:
            one = dataclasses.replace(one, rearranged_cycles=0)
        traffic += one
    return traffic
