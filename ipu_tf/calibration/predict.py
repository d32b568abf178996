"""Predicts measured points: one predictor for each kind of measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ipu_tf.calibration.measurement_units import parse_unit
from ipu_tf.calibration.outcome import CannotPredict, PredictionOutcome
from ipu_tf.calibration.params import target_of
from ipu_tf.calibration.predict_contractions import (
    amp_vertex,
    conv_forward,
    dense_matmul,
    gemm_largest_square,
    gemm_peak,
)
from ipu_tf.calibration.predict_exchange import (
    all_to_all,
    broadcast,
    gather,
    point_to_point,
    scatter,
)
from ipu_tf.calibration.predict_system import host, link
from ipu_tf.calibration.predict_tile import reduction, tile_memory
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.machine.target import Target

__all__ = ["KINDS", "CannotPredict", "Prediction", "Predictor", "predict", "prediction"]

Predictor: TypeAlias = Callable[[MeasuredPoint, Target], PredictionOutcome]

KINDS: Mapping[str, Predictor] = {
    "amp_vertex": amp_vertex,
    "conv_forward": conv_forward,
    "dense_matmul": dense_matmul,
    "exchange_all_to_all": all_to_all,
    "exchange_broadcast": broadcast,
    "exchange_gather": gather,
    "exchange_point_to_point": point_to_point,
    "exchange_scatter": scatter,
    "gemm_largest_square": gemm_largest_square,
    "gemm_peak": gemm_peak,
    "host": host,
    "link": link,
    "reduce": reduction,
    "tile_memory": tile_memory,
}
"""Kinds of measurements of the machine; `ipu_tf.validation.PREDICTORS` has whole models, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The model's figure for a record.

    Attributes:
        figure: In the record's unit.
        explanation: The parts of the figure, in words; "" for a single part.
    """

    figure: float
    explanation: str = ""


def prediction(record: MeasuredPoint, kinds: Mapping[str, Predictor] = KINDS) -> Prediction | None:
    """Returns the model's prediction for a record; None for unknown kinds.

    Published facts of the measurement take precedence over its record (`MeasuredPoint.corrected`).

    Args:
        record: The record.
        kinds: The predictor of every known kind.

    Raises:
        CannotPredict: The kind is known, but the record lacks fields that the prediction needs,
            or its sizes are too large to count.
        ValueError: The chip is unknown.
    """
    predictor = kinds.get(record.kind)
    if predictor is None:
        return None
    record = record.corrected
    target = target_of(record)
    try:
        with np.errstate(over="raise"):
            outcome = predictor(record, target)
            figure = outcome.in_unit(parse_unit(record.unit), target.clock_hz)
    except (OverflowError, FloatingPointError) as error:
        raise CannotPredict("its sizes together are out of range") from error
    return Prediction(figure=figure, explanation=outcome.explanation)


def predict(record: MeasuredPoint) -> float | None:
    """Returns the figure of `prediction`, in the record's unit; None for unknown kinds."""
    outcome = prediction(record)
    return None if outcome is None else outcome.figure
