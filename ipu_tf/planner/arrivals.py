"""Cycles of plans in a program: their own, and those in which operands reach their tiles.

A plan's own cost (`plan_cost.py`) begins with operands on the tiles that read them. In a program
most operands lie as other operations left them: activations, gradients, and the weights of a
backward pass. Searches rank plans by what lowering charges for them then. Modelled: every operand
but the filter of a forward convolution comes from other tiles; features of convolutions lie in
whole vectors, as far as their number allows, and only a plan cuts the columns of a product.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.cost import Count, Counts, as_counts, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.movement import rearranged_cycles
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.partition import cut_unit
from ipu_tf.planner.plan import cut_grains
from ipu_tf.planner.plan_cost import plan_phases
from ipu_tf.planner.shapes import DTYPE_BYTES, OpShape

LEAST_PIECE_BYTES = {"left": 128, "right": 256}
"""Bytes of an operand below which it is not spread further, so that exchange code stays short
(poplibs 3.4, mapActivationsOrWeights: activations 128, weights 256)."""

_MOST_READERS_OF_A_VIEW = 7
_WORD_BYTES = 4


def ranked_cycles(shape: OpShape, plans: Candidates, target: Target) -> Counts:
    """Returns the cycles of plans whose operands lie elsewhere, by which a search ranks them."""
    phases = plan_phases(shape, plans, target)
    plan_cycles = sum(phase.total_cycles for phase in phases)
    exchanging = sum(phase.cost.exchange_cycles for phase in phases)
    # Operands arrive in the first exchange of a plan; without one they need a superstep.
    first_superstep = np.where(
        as_counts(exchanging) > 0, 0, target.sync_cycles + target.exchange_fixed_cycles
    )
    return as_counts(plan_cycles + first_superstep + arrival_cycles(shape, plans, target))


def arrival_cycles(shape: OpShape, plans: Candidates, target: Target) -> Counts:
    """Returns the cycles in which tiles receive and put together operands that lie elsewhere."""
    whole = shape.operands(shape.extents)
    pieces = shape.pieces(lambda name: _unit(name, shape, plans))
    operands = (
        ("left", whole.left, shape.left_shared_by),
        ("right", whole.right, shape.right_shared_by),
    )
    cycles = as_counts(0)
    for (side, elements, shared_by), piece in zip(operands, pieces, strict=True):
        if piece is None:
            continue
        held_bytes = _spread_bytes(shape, plans, side, elements)
        piece_bytes = piece * DTYPE_BYTES[shape.dtype]
        stays = is_viewed(shape, plans.tile_parts(shared_by)) & (piece_bytes % _WORD_BYTES == 0)
        packing = np.where(stays, 0, rearranged_cycles(held_bytes, piece_bytes))
        cycles = cycles + ceil_div(held_bytes, target.exchange_bytes_per_cycle) + packing
    return cycles


def is_viewed(shape: OpShape, readers: Count) -> NDArray[np.bool_]:
    """Returns whether tiles fetch an operand of another layout piece by piece from where it lies.

    poplibs rearranges an operand first only if more tiles than these read each element, or in a
    filter gradient (Convolution.cpp, inViewMaxBroadcastDests and inputRearrangementIsExpensive).

    Args:
        shape: The op.
        readers: Tiles that read each element.
    """
    has_few_readers = as_counts(readers) <= _MOST_READERS_OF_A_VIEW
    return np.asarray(has_few_readers & (shape.pass_ != "filter_gradient"))


def _unit(name: str, shape: OpShape, plans: Candidates) -> Count:
    """Returns the elements of which all borders of plans along an extent are multiples."""
    parts = plans.splits[name]
    grain = cut_grains(name, shape, plans.method, plans.grain, parts)
    return cut_unit(shape.extents[name], parts, grain)


def _spread_bytes(shape: OpShape, plans: Candidates, side: str, elements: Count) -> Counts:
    """Returns the bytes of an operand on the tiles of a plan among which it is spread.

    Args:
        shape: The op.
        plans: The plans.
        side: "left" or "right".
        elements: Elements of the whole operand.
    """
    shared_by = shape.left_shared_by if side == "left" else shape.right_shared_by
    share = np.asarray(float(elements))
    blocks: Count = 1
    for name, extent in shape.extents.items():
        is_cut = extent > 1 and (side == "right" or not name.startswith("kernel"))
        if is_cut and name not in shared_by:
            parts = plans.tile_parts((name,))
            share = share * ceil_div(extent, parts) / extent
            blocks = blocks * parts
    block_bytes = as_counts(np.ceil(share)) * DTYPE_BYTES[shape.dtype]
    spread = np.clip(ceil_div(block_bytes, LEAST_PIECE_BYTES[side]), 1, plans.tiles // blocks)
    return as_counts(ceil_div(block_bytes, spread))
