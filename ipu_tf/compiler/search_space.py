"""The plans that a search considers: splits over tiles, and serial steps on top of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.candidates import Candidates
from ipu_tf.compiler.shapes import AMP_GRAINS, OpShape
from ipu_tf.machine.contractions import pass_columns
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target

_ALWAYS_TRIED = 4
"""Every number of parts up to this one is tried."""

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
    serial: dict[str, NDArray[np.int64]]


def parallel_splits(
    shape: OpShape, target: Target, serial_names: tuple[str, ...], partials: str
) -> Splits:
    """Returns the splits over at most the tiles of the machine.

    Args:
        shape: The op.
        target: The machine.
        serial_names: Extents that a plan may take in steps.
        partials: Type of the partial results.
    """
    width = pass_columns(shape.dtype, partials, target)
    names = list(shape.extents)
    # The last column is the product of the others: plans that need too many tiles go at once.
    rows: NDArray[np.int64] = np.ones((1, 1), dtype=np.int64)
    for name in names:
        parts = np.array(list(_part_counts(shape, name, target, width)), dtype=np.int64)
        tiles = rows[:, -1:] * parts
        row, part = np.nonzero(tiles <= target.tiles)
        rows = np.column_stack([rows[row, :-1], parts[part], tiles[row, part]])
    columns = np.ascontiguousarray(rows.T[:-1])
    ones = np.ones(len(rows), dtype=np.int64)
    return Splits(
        splits=dict(zip(names, columns, strict=True)), serial=dict.fromkeys(serial_names, ones)
    )


def with_serial_steps(shape: OpShape, plans: Candidates) -> Candidates:
    """Returns plans in serial steps: every plan with every number of steps that it can take."""
    names = tuple(plans.serial)
    options = np.array(list(_step_counts(names)), dtype=np.int64)
    count = len(next(iter(plans.splits.values())))
    every = plans.take(np.repeat(np.arange(count), len(options)))
    serial = {name: np.tile(options[:, i], count) for i, name in enumerate(names)}
    splits = {name: parts * serial.get(name, 1) for name, parts in every.splits.items()}
    possible = np.ones(len(options) * count, dtype=bool)
    for name, steps in serial.items():
        grain = plans.grain if name == shape.grained_split else 1
        possible &= splits[name] <= ceil_div(shape.extents[name], grain)
        if name in shape.reduction_splits:
            for before in shape.reduction_splits[: shape.reduction_splits.index(name)]:
                possible &= (steps == 1) | (splits[before] == 1)
    stepped = Candidates(
        splits=splits,
        serial=serial,
        method=plans.method,
        grain=plans.grain,
        partials=plans.partials,
    )
    return stepped.take(possible)


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


def _part_counts(shape: OpShape, name: str, target: Target, width: int) -> Iterator[int]:
    """Yields the part counts worth trying for one extent, each with another largest part."""
    extent = shape.extents[name]
    grain = AMP_GRAINS[shape.dtype] if name == shape.grained_split else 1
    units = ceil_div(extent, grain)
    # A column block narrower than an AMP pass leaves some of its units idle.
    useful = ceil_div(extent, width) if name == shape.column_split else units
    most = min(useful, target.tiles)
    if name in _DIVIDED:
        yield from (parts for parts in range(1, most + 1) if extent % parts == 0)
        return
    seen = set()
    for parts in range(1, most + 1):
        power_of_two = parts & (parts - 1) == 0
        divides = units % parts == 0 or target.tiles % parts == 0
        largest = ceil_div(units, parts)
        if largest not in seen and (power_of_two or divides or parts <= _ALWAYS_TRIED):
            seen.add(largest)
            yield parts
