"""Points with their outcomes: which are on the Pareto front, and which parameters vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipu_tf.sweep.point import Outcome, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A point with its outcome.

    Attributes:
        point: The point.
        outcome: Its figures.
    """

    point: Point
    outcome: Outcome


def pareto_front(estimates: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Returns the estimates that no other one beats, the one in least memory first.

    No other estimate that fits has as many samples a second in as little memory on all tiles.
    """
    candidates = [
        each
        for each in estimates
        if each.outcome.fits and each.outcome.samples_per_second is not None
    ]
    candidates.sort(key=lambda each: (each.outcome.memory_bytes, -_rate(each)))
    front: list[Estimate] = []
    for each in candidates:
        if not front or _rate(each) > _rate(front[-1]):
            front.append(each)
    return tuple(front)


def varying(estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Returns the names of parameters with several values; the first one if there are none."""
    labels = [each.point.labels() for each in estimates]
    names = tuple(labels[0]) if labels else ()
    choices = tuple(name for name in names if len({row[name] for row in labels}) > 1)
    return choices or names[:1]


def _rate(each: Estimate) -> float:
    return each.outcome.samples_per_second or 0.0
