"""Compares predictions with measurements, group by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.calibration.corrections import Correction
from ipu_tf.calibration.predict import KINDS, Predictor, prediction
from ipu_tf.calibration.records import MeasuredPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class PointComparison:
    """A record and the model's prediction.

    Attributes:
        record: The record.
        predicted: The prediction in the record's unit; None if there is none.
        reason: The reason why there is none; "" otherwise.
        explanation: The parts of the prediction, in words; "" for a single part.
    """

    record: MeasuredPoint
    predicted: float | None
    reason: str = ""
    explanation: str = ""

    @property
    def factor(self) -> float:
        """How far the prediction is off, at least 1: the larger of r and 1 / r."""
        ratio = self.error + 1
        return max(ratio, 1 / ratio)

    @property
    def error(self) -> float:
        """Relative error: how much the prediction is above the measurement."""
        if self.predicted is None:
            raise ValueError(f"Record {self.record.id!r} has no prediction: {self.reason}.")
        return self.predicted / self.record.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The errors of one kind on one chip.

    Attributes:
        kind: The kind of measurement.
        chip: The chip.
        number: Records with a prediction.
        median_error: Median of the relative errors' sizes.
        worst_error: The largest relative error, with its sign.
        worst_id: The record that has it.
        rank_correlation: Spearman's; None for fewer than three records, or where all are alike.
    """

    kind: str
    chip: str
    number: int
    median_error: float
    worst_error: float
    worst_id: str
    rank_correlation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All records with their predictions.

    Attributes:
        compared: In the order of the records.
    """

    compared: tuple[PointComparison, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """Errors by kind and chip, in alphabetical order."""
        by_group: dict[tuple[str, str], list[PointComparison]] = {}
        for one in self.compared:
            if one.predicted is not None:
                by_group.setdefault((one.record.kind, one.record.chip), []).append(one)
        return tuple(_group(*key, by_group[key]) for key in sorted(by_group))

    @property
    def unknown_kinds(self) -> dict[str, int]:
        """Kinds without a predictor, and the number of their records."""
        return dict(
            Counter(
                one.record.kind for one in self.compared if one.predicted is None and not one.reason
            )
        )

    @property
    def unpredicted(self) -> tuple[PointComparison, ...]:
        """Records of known kinds that could not be predicted, each with its reason."""
        return tuple(one for one in self.compared if one.predicted is None and one.reason)

    @property
    def corrections(self) -> tuple[tuple[Correction, tuple[MeasuredPoint, ...]], ...]:
        """Corrections, each with the records that it concerns, in their order."""
        by_identity: dict[int, tuple[Correction, list[MeasuredPoint]]] = {}
        for one in self.compared:
            correction = one.record.correction
            if correction is not None:
                by_identity.setdefault(id(correction), (correction, []))[1].append(one.record)
        return tuple((correction, tuple(records)) for correction, records in by_identity.values())


def compare(records: Iterable[MeasuredPoint], kinds: Mapping[str, Predictor] = KINDS) -> Comparison:
    """Returns the records with the model's predictions, or the reasons why there are none.

    Args:
        records: The records.
        kinds: The predictor of every known kind.
    """
    return Comparison(compared=tuple(_comparison(record, kinds) for record in records))


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Returns Spearman's rank correlation, or None where a side has no two ranks.

    Args:
        left: Some figures.
        right: As many figures, in the same order.
    """
    if len(left) < 3:
        return None
    ranks = _ranks(left), _ranks(right)
    if any(np.ptp(side) == 0 for side in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def _comparison(record: MeasuredPoint, kinds: Mapping[str, Predictor]) -> PointComparison:
    try:
        outcome = prediction(record, kinds)
        if outcome is None:
            return PointComparison(record=record, predicted=None)
        return PointComparison(
            record=record, predicted=outcome.figure, explanation=outcome.explanation
        )
    except ValueError as error:  # also of the chip, and of shapes that the planner does not take
        return PointComparison(record=record, predicted=None, reason=str(error))


def _group(kind: str, chip: str, members: Sequence[PointComparison]) -> Group:
    errors = np.array([one.error for one in members])
    worst = int(np.argmax(np.abs(errors)))
    predicted = [one.predicted for one in members if one.predicted is not None]
    return Group(
        kind=kind,
        chip=chip,
        number=len(members),
        median_error=float(np.median(np.abs(errors))),
        worst_error=float(errors[worst]),
        worst_id=members[worst].record.id,
        rank_correlation=rank_correlation([one.record.measured for one in members], predicted),
    )


def _ranks(figures: Sequence[float]) -> NDArray[np.float64]:
    """Returns the rank of each figure; equal figures share the mean of theirs."""
    values = np.asarray(figures)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
