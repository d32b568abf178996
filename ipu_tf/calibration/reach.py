"""How far the predictions of whole models are off, over all of them."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from ipu_tf.calibration.compare import PointComparison

_NEAR = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The factors by which predictions of models are off; 1 is exact.

    Attributes:
        rows: Number of predictions.
        networks: Number of different networks.
        median_by_row: Median of the factors.
        median_by_network: Median of the networks' own medians.
        near: Share of the rows within a factor of 1.25.
        worst: The largest factor.
        worst_id: The record that has it.
    """

    rows: int
    networks: int
    median_by_row: float
    median_by_network: float
    near: float
    worst: float
    worst_id: str

    @property
    def text(self) -> str:
        """The figures in one line."""
        return (
            f"{self.rows} rows of {self.networks} networks: off by a median factor of "
            f"{self.median_by_row:.2f} by row and {self.median_by_network:.2f} by network; "
            f"{self.near:.0%} within {_NEAR:g}; worst {self.worst:.2f} ({self.worst_id})"
        )


def reach_of(models: Iterable[PointComparison]) -> Reach | None:
    """Returns how far predictions of models are off together; None without predictions."""
    by_network: dict[str, list[PointComparison]] = collections.defaultdict(list)
    for one in models:
        if one.predicted is not None:
            by_network[str(one.record.params.get("network"))].append(one)
    rows = [one for members in by_network.values() for one in members]
    if not rows:
        return None
    worst = max(rows, key=lambda one: one.factor)
    return Reach(
        rows=len(rows),
        networks=len(by_network),
        median_by_row=statistics.median(one.factor for one in rows),
        median_by_network=statistics.median(
            statistics.median(one.factor for one in members) for members in by_network.values()
        ),
        near=sum(one.factor <= _NEAR for one in rows) / len(rows),
        worst=worst.factor,
        worst_id=worst.record.id,
    )
