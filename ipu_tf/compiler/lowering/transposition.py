"""Transpositions of tensors before tiles read them in another order.

As poplibs does it: by its vertex in blocks, else element by element. What the vertex transposes
goes to all tiles before, and on to its readers from there (popops, Rearrange.cpp, regroupTensor).
That is charged as one exchange and one change of layout beside the vertex, as for filter gradients:
so does the planner of poplibs, from measurements of filter gradients that were regrouped
(ConvModel.cpp, getScaleFactorForTransform). The copy is there until the operation that reads it has
run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.machine import vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import VECTOR_BYTES
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.messages import unknown_overlaps
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
        is_regrouped: Whether it goes to other tiles, and on to its readers in whole vectors.
        filled: The elements that move, zeros included, over those of the tensor.
    """

    stage: ComputeStage
    by_elements: bool
    is_regrouped: bool
    filled: float

    @property
    def copy(self) -> Footprint:
        """The memory of the transposed operand."""
        return self.stage.where.footprint


def transposition(
    where: Placement,
    dtype: str,
    target: Target,
    *,
    by_elements: bool,
    filled: float = 1.0,
    in_place: bool = False,
) -> Transposition:
    """Returns the transposition of every tile's share of a tensor.

    Args:
        where: The tensor's place.
        dtype: Its type.
        target: The machine.
        by_elements: Whether it moves element by element.
        filled: The elements that move, zeros included, over those of the tensor.
        in_place: Whether the vertex transposes it where it lies.
    """
    elements = math.ceil(where.tile_elements * filled)
    if by_elements:
        vertex = vertices.copy(elements, dtype, target, piece_elements=1)
    else:
        blocks = ceil_div(elements, BLOCK * BLOCK)
        vertex = vertices.transpose(BLOCK * blocks, BLOCK, dtype, target)
    stage = ComputeStage(name="transpose", where=where, vertex=vertex)
    return Transposition(
        stage=stage,
        by_elements=by_elements,
        is_regrouped=not (by_elements or in_place),
        filled=filled,
    )


def moved(
    operands: Sequence[Placement],
    destination: Placement,
    transposed: Mapping[int, Transposition],
) -> Traffic:
    """Returns the traffic that brings operands to a placement, some of them transposed before."""
    traffic = NOTHING
    for index, operand in enumerate(operands):
        traffic += brought(operand, destination, transposed.get(index))
    return traffic


def brought(
    operand: Placement, destination: Placement, transposed: Transposition | None
) -> Traffic:
    """Returns the traffic that brings an operand to a placement, transposed before or not."""
    traffic = move(operand, destination)
    if transposed is None:
        return traffic
    if transposed.by_elements:
        return dataclasses.replace(traffic, rearranged_cycles=0)
    if not transposed.is_regrouped:
        return traffic
    if traffic == NOTHING:
        traffic = _elsewhere(operand)
    moved_bytes = math.ceil(destination.tile_elements * transposed.filled) * operand.element_bytes
    packing = vertices.rearranged_cycles(moved_bytes, VECTOR_BYTES)
    return dataclasses.replace(traffic, rearranged_cycles=int(packing))


def _elsewhere(operand: Placement) -> Traffic:
    """Returns the traffic that brings a tensor to as many other tiles."""
    tile_bytes, messages = operand.footprint.tile_bytes, unknown_overlaps(operand.tiles)
    return Traffic(
        received_bytes=tile_bytes,
        sent_bytes=tile_bytes,
        total_bytes=operand.bytes,
        received=messages,
        sent=messages,
    )
