"""Measured points, the model's predictions for them, and its errors.

A file of records is only data: the measurement, the chip, and the source. Predictions come from the
functions that plan and charge programs, so an error here is an error there.
"""

from typing import TYPE_CHECKING

from ipu_tf.base.deprecation import deprecated_names
from ipu_tf.calibration.compare import Comparison, Group, compare
from ipu_tf.calibration.predict import KINDS, CannotPredict, predict
from ipu_tf.calibration.records import MeasuredPoint, RecordError, load_records

__all__ = [
    "KINDS",
    "CannotPredict",
    "Comparison",
    "Group",
    "MeasuredPoint",
    "RecordError",
    "compare",
    "load_records",
    "predict",
]

# Type checkers would take this function to mean "any name at all".
if not TYPE_CHECKING:
    __getattr__ = deprecated_names(__name__, {"Record": f"{__name__}.MeasuredPoint"})
