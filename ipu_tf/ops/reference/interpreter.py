"""Executes a plan tile by tile.

An op passes its `PlannedOp`: the shape that the plan splits, the layout of its result, and for
the block of a tile the runs of its reduction. This module does the rest: it cuts runs into
passes, accumulates, rounds, and adds up the partials of tiles that share an output block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ipu_tf.ops.reference.rounding import Rounding, TileRounder
from ipu_tf.planner.partition import partition
from ipu_tf.planner.plan import OpShape, Plan, partial_dtype

Array: TypeAlias = NDArray[np.float32]
Ranges: TypeAlias = dict[str, range]
"""The elements of every extent that a tile works on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """One reduction element: the factors that a tile multiplies and adds for it.

    Attributes:
        left: Factors from the left input, broadcastable to the block.
        right: Factors from the right input, broadcastable to the block.
        mask: Where the product exists at all, broadcastable to the block.
    """

    left: Array
    right: Array
    mask: NDArray[np.bool_] | bool = True


Run: TypeAlias = Sequence[Tap]
"""Reduction elements that follow one another; an AMP pass never reaches over the end of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOp:
    """An op as the interpreter sees it.

    Attributes:
        shape: The op's shape; the plan splits its extents.
        output_splits: The extents of the result, outermost first.
        runs: Returns the runs of a tile.
    """

    shape: OpShape
    output_splits: tuple[str, ...]
    runs: Callable[[Ranges], Iterable[Run]]


def execute(op: PlannedOp, plan: Plan, rounding: Rounding) -> NDArray[np.floating]:
    """Returns the result of an op, with one axis per entry of `op.output_splits`.

    Float16 inputs give a float16 result, float32 inputs a float32 one.
    """
    extents = op.shape.extents
    output = np.zeros([extents[name] for name in op.output_splits], dtype=op.shape.dtype)
    for index, ranges in enumerate(_parts(op.shape, plan, op.output_splits)):
        # Out-of-range products are part of the definition: infinities and NaNs follow IEEE 754.
        with np.errstate(invalid="ignore", over="ignore"):
            output[np.ix_(*ranges.values())] = _output_block(op, plan, rounding, index, ranges)
    return output


def _output_block(
    op: PlannedOp, plan: Plan, rounding: Rounding, index: int, ranges: Ranges
) -> Array:
    """Returns the `index`-th block of the result: the sum of the partials of its tiles."""
    half_partials = partial_dtype(op.shape.dtype, plan.partials) == "float16"
    reduction_parts = list(_parts(op.shape, plan, op.shape.reduction_splits))
    partials = []
    for part, reduced in enumerate(reduction_parts):
        tile = index * len(reduction_parts) + part
        rounder = rounding.on_tile(tile) if half_partials else None
        partials.append(_partial(op, plan, ranges | reduced, rounder))
    total = partials[0]
    for partial in partials[1:]:
        total = total + partial
    already_rounded = half_partials and len(reduction_parts) == 1
    if op.shape.dtype == "float32" or already_rounded:
        return total
    return rounding.on_tile(plan.parts + index)(total)


def _parts(shape: OpShape, plan: Plan, names: tuple[str, ...]) -> Iterator[Ranges]:
    """Yields every combination of the parts of the named extents, the last one fastest."""
    ranges = []
    for name in names:
        grain = plan.grain if name == shape.grained_split else 1
        parts = partition(shape.extents[name], plan.splits[name], grain)
        ranges.append([range(begin, end) for begin, end in parts])
    for combination in itertools.product(*ranges):
        yield dict(zip(names, combination, strict=True))


def _partial(op: PlannedOp, plan: Plan, ranges: Ranges, rounder: TileRounder | None) -> Array:
    """Returns the partial result of one tile, rounded after every pass if there is a rounder."""
    accumulator = np.zeros([len(ranges[name]) for name in op.output_splits], dtype=np.float32)
    for run in op.runs(ranges):
        for begin in range(0, len(run), plan.grain):
            for tap in run[begin : begin + plan.grain]:
                total = accumulator + tap.left * tap.right
                accumulator = np.where(tap.mask, total, accumulator)
            if rounder is not None:
                accumulator = rounder(accumulator)
    return accumulator
