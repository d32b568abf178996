"""The result of a prediction, in physical terms, and in the unit of a record."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.calibration.measurement_units import Unit


class CannotPredict(ValueError):
    """A record of a known kind lacks a field that its prediction needs, or has an unknown value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionOutcome:
    """A predicted run, or a predicted rate or count.

    Attributes:
        seconds: Time of the run.
        bytes: Bytes that it moves.
        flops: Floating point operations that it does.
        bytes_per_second: A rate that is predicted directly.
        flops_per_second: The same of arithmetic.
        items_per_second: Samples that a model trains on, or predicts for.
        count: A number of things.
        explanation: The parts of the figure, in words; "" for a single part.
    """

    seconds: float | None = None
    bytes: float | None = None
    flops: float | None = None
    bytes_per_second: float | None = None
    flops_per_second: float | None = None
    items_per_second: float | None = None
    count: float | None = None
    explanation: str = ""

    def in_unit(self, unit: Unit, clock_hz: float) -> float:
        """Returns the figure in a unit.

        Raises:
            CannotPredict: The kind of measurement has no figure of that dimension.
        """
        figure = {
            "seconds": self.seconds,
            "cycles": None if self.seconds is None else self.seconds * clock_hz,
            "bytes": self.bytes,
            "bytes_per_second": self.bytes_per_second or self._rate(self.bytes),
            "flops_per_second": self.flops_per_second or self._rate(self.flops),
            "items_per_second": self.items_per_second,
            "count": self.count,
        }[unit.dimension]
        if figure is None:
            raise CannotPredict(
                f"this kind of measurement has no figure in {unit.dimension.replace('_', ' ')}"
            )
        return figure / unit.size

    def _rate(self, amount: float | None) -> float | None:
        if amount is None or not self.seconds:
            return None
        return amount / self.seconds
