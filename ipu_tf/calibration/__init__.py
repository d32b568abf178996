"""Measured points, what the model predicts for them, and how far off it is.

A file of records is data alone: what was measured, on which chip, by whom. Predictions come from
the functions that plan and charge programs, so that an error here is an error there.
"""

from ipu_tf.calibration.compare import Comparison, Group, compare
from ipu_tf.calibration.predict import KINDS, CannotPredict, predict
from ipu_tf.calibration.records import Record, RecordError, load_records

__all__ = [
    "KINDS",
    "CannotPredict",
    "Comparison",
    "Group",
    "Record",
    "RecordError",
    "compare",
    "load_records",
    "predict",
]
