"""The plans that a search considers: splits over tiles, and serial steps on top of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.contractions import METHODS
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan_blocks import scratch_bytes
from ipu_tf.planner.releases import Release, Role
from ipu_tf.planner.shapes import AMP_GRAINS, OpShape

_SMALL_PARTS = 4
"""Every number of parts of a convolution's extent up to this one is tried."""

_EVEN_EXTENTS = ("kernel_rows", "kernel_columns")
"""Extents of a few elements: only even splits are tried."""

_STEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of steps that are tried where they need not be even."""


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
    shape: OpShape, target: Target, serial_names: tuple[str, ...], *, column_extent: str, width: int
) -> Splits:
    """Returns the splits over at most the tiles of the machine.

    Args:
        shape: The op.
        target: The machine.
        serial_names: Extents that a plan may take in steps.
        column_extent: The extent that the columns of the AMP unit compute side by side.
        width: Columns of an AMP pass; a narrower block leaves some of the units idle.
    """
    names = list(shape.extents)
    # The last column is the product of the others: drops plans that need too many tiles early.
    rows: NDArray[np.int64] = np.ones((1, 1), dtype=np.int64)
    for name in names:
        parts = _part_counts(shape, name, target, width if name == column_extent else 1)
        tiles = rows[:, -1:] * parts
        row, part = np.nonzero(tiles <= target.tiles)
        rows = np.column_stack([rows[row, :-1], parts[part], tiles[row, part]])
    columns = np.ascontiguousarray(rows.T[:-1])
    return Splits(
        splits=dict(zip(names, columns, strict=True)), serial=dict.fromkeys(serial_names, 1)
    )


def in_all_steps(shape: OpShape, plans: Candidates, release: Release) -> Iterator[Candidates]:
    """Yields plans in serial steps: every plan with every possible number of steps.

    Each plan takes one extent in steps, as in poplibs (ConvModel.cpp).
    """
    for name in plans.serial:
        counts = _step_counts(shape, plans.method, name, release)
        plan, option = np.nonzero(counts <= _most_steps(shape, plans, name)[:, np.newaxis])
        yield _stepped(plans.take(plan), name, counts[option])


def in_fewest_steps(
    shape: OpShape, plans: Candidates, target: Target, limit_bytes: int, release: Release
) -> Iterator[Candidates]:
    """Yields plans in the fewest serial steps that fit, or in the most if none fits."""
    for name in plans.serial:
        counts = _step_counts(shape, plans.method, name, release)
        usable = np.searchsorted(counts, _most_steps(shape, plans, name), side="right")
        candidates = plans.take(usable > 0)
        most = usable[usable > 0] - 1
        fewest = np.zeros_like(most)
        while np.any(fewest < most):
            middle = (fewest + most) // 2
            needed_bytes = scratch_bytes(shape, _stepped(candidates, name, counts[middle]), target)
            fits = needed_bytes <= limit_bytes
            fewest, most = np.where(fits, fewest, middle + 1), np.where(fits, middle, most)
            fewest = np.minimum(fewest, most)
        yield _stepped(candidates, name, counts[most])


def _stepped(plans: Candidates, name: str, counts: NDArray[np.int64]) -> Candidates:
    """Returns the plans with the given numbers of steps of an extent."""
    return dataclasses.replace(
        plans,
        splits={**plans.splits, name: plans.splits[name] * counts},
        serial={**plans.serial, name: counts},
    )


def _most_steps(shape: OpShape, plans: Candidates, name: str) -> NDArray[np.int64]:
    """Returns the largest number of steps of an extent that each plan can take."""
    grain = plans.grain if name == shape.grained_split else 1
    most = ceil_div(shape.extents[name], grain) // np.asarray(plans.splits[name])
    if name in shape.reduction_splits:
        # The partials of earlier splits are added up first.
        for before in shape.reduction_splits[: shape.reduction_splits.index(name)]:
            most = np.where(plans.splits[before] == 1, most, 1)
    return most


def waiting_extent(shape: OpShape, method: str) -> str:
    """Returns the extent that a method computes side by side in the columns of the AMP unit."""
    return "rows" if METHODS[method].swapped else shape.column_split


def role(shape: OpShape, method: str, name: str) -> Role:
    """Returns the role of an extent in a method."""
    if name in shape.reduction_splits:
        return "reduction"
    return "output" if name == waiting_extent(shape, method) else "streamed"


def _step_counts(shape: OpShape, method: str, name: str, release: Release) -> NDArray[np.int64]:
    """Returns the numbers of steps of an extent that are worth trying, ascending."""
    extent = shape.extents[name]
    if role(shape, method, name) not in release.even:
        return np.array([count for count in _STEPS if count <= extent], dtype=np.int64)
    counts = np.arange(2, _STEPS[-1] + 1)
    return counts[extent % counts == 0]


def _part_counts(shape: OpShape, name: str, target: Target, width: int) -> NDArray[np.int64]:
    """Returns the part counts worth trying for one extent.

    Convolutions have many extents, so the search tries only even and round numbers of parts.
    For a matmul it tries every number that changes the number of whole AMP passes.
    """
    extent = shape.extents[name]
    units = ceil_div(extent, AMP_GRAINS[shape.dtype] if name == shape.grained_split else 1)
    parts = np.arange(1, min(ceil_div(units, width), target.tiles) + 1)
    if name in _EVEN_EXTENTS:
        return parts[extent % parts == 0]
    power_of_two = parts & (parts - 1) == 0
    divides = (units % parts == 0) | (target.tiles % parts == 0)
    part_counts = parts[power_of_two | divides | (parts <= _SMALL_PARTS)]
    part_counts = _with_other_sizes(units, part_counts)
    if shape.family == "conv":
        return part_counts
    return np.union1d(part_counts, _with_other_sizes(ceil_div(units, width), parts))


def _with_other_sizes(units: int, parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns part counts, ascending, without those that do not make the largest part smaller."""
    _, first = np.unique(ceil_div(units, parts), return_index=True)
    return parts[np.sort(first)]
