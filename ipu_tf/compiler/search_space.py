"""The plans that a search considers: splits over tiles, and serial steps on top of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.candidates import Candidates
from ipu_tf.compiler.shapes import AMP_GRAINS, ConvShape, OpShape
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target

_ALWAYS_TRIED = 4
"""Every number of parts of a convolution's extent up to this one is tried."""

_DIVIDED = ("kernel_rows", "kernel_columns")
"""Extents of a few elements: only even splits are tried."""

_STEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_STEPS_OF_TWO = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Candidate splits over tiles.

    Attributes:
        splits: Parts of every extent, one entry per candidate.
        serial: Steps of the extents that allow them: all 1.
    """

    splits: dict[str, NDArray[np.int64]]
    serial: dict[str, int]


def parallel_splits(
    shape: OpShape, target: Target, serial_names: tuple[str, ...], *, filled: str, width: int
) -> Splits:
    """Returns the splits over at most the tiles of the machine.

    Args:
        shape: The op.
        target: The machine.
        serial_names: Extents that a plan may take in steps.
        filled: The extent that the columns of the AMP unit compute side by side.
        width: Columns of an AMP pass; a narrower block leaves some of the units idle.
    """
    names = list(shape.extents)
    # The last column is the product of the others: plans that need too many tiles go at once.
    rows: NDArray[np.int64] = np.ones((1, 1), dtype=np.int64)
    for name in names:
        parts = _part_counts(shape, name, target, width if name == filled else 1)
        tiles = rows[:, -1:] * parts
        row, part = np.nonzero(tiles <= target.tiles)
        rows = np.column_stack([rows[row, :-1], parts[part], tiles[row, part]])
    columns = np.ascontiguousarray(rows.T[:-1])
    return Splits(
        splits=dict(zip(names, columns, strict=True)), serial=dict.fromkeys(serial_names, 1)
    )


def with_serial_steps(shape: OpShape, plans: Candidates) -> Candidates:
    """Returns plans in serial steps: every plan with every number of steps that it can take."""
    names = tuple(plans.serial)
    options = np.array(list(_step_counts(names)), dtype=np.int64)
    steps = dict(zip(names, options.T, strict=True))
    parts = {
        name: splits[:, np.newaxis] * steps.get(name, 1) for name, splits in plans.splits.items()
    }
    possible = np.ones((len(next(iter(plans.splits.values()))), len(options)), dtype=bool)
    for name in names:
        grain = plans.grain if name == shape.grained_split else 1
        possible &= parts[name] <= ceil_div(shape.extents[name], grain)
        if name in shape.reduction_splits:
            for before in shape.reduction_splits[: shape.reduction_splits.index(name)]:
                possible &= (steps[name] == 1) | (parts[before] == 1)
    plan, option = np.nonzero(possible)
    every = plans.take(plan)
    serial = {name: counts[option] for name, counts in steps.items()}
    splits = {name: counts * serial.get(name, 1) for name, counts in every.splits.items()}
    return dataclasses.replace(every, splits=splits, serial=serial)


def _step_counts(names: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    """Yields the steps of every extent: in one extent, or in two of them."""
    for index in range(len(names)):
        for steps in _STEPS:
            yield tuple(steps if i == index else 1 for i in range(len(names)))
    for first in range(len(names)):
        for second in range(first + 1, len(names)):
            for one in _STEPS_OF_TWO:
                for other in _STEPS_OF_TWO:
                    pair = {first: one, second: other}
                    yield tuple(pair.get(i, 1) for i in range(len(names)))


def _part_counts(shape: OpShape, name: str, target: Target, width: int) -> NDArray[np.int64]:
    """Returns the part counts worth trying for one extent.

    Convolutions have so many extents that only even and round numbers of parts are tried. Of a
    matmul all are that make another number of whole AMP passes.
    """
    extent = shape.extents[name]
    units = ceil_div(extent, AMP_GRAINS[shape.dtype] if name == shape.grained_split else 1)
    parts = np.arange(1, min(ceil_div(units, width), target.tiles) + 1)
    if name in _DIVIDED:
        return parts[extent % parts == 0]
    power_of_two = parts & (parts - 1) == 0
    divides = (units % parts == 0) | (target.tiles % parts == 0)
    tried = parts[power_of_two | divides | (parts <= _ALWAYS_TRIED)]
    tried = _with_other_sizes(units, tried)
    if isinstance(shape, ConvShape):
        return tried
    return np.union1d(tried, _with_other_sizes(ceil_div(units, width), parts))


def _with_other_sizes(units: int, parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns those part counts, ascending, whose largest part no smaller count has."""
    _, first = np.unique(ceil_div(units, parts), return_index=True)
    return parts[np.sort(first)]
