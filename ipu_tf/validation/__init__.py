"""Predictions of everything that is measured, whole models included.

`ipu_tf.calibration` predicts measurements of the machine and knows no TensorFlow; a whole model
needs the zoo and Keras, which are loaded with its first record.
"""

from collections.abc import Mapping

from ipu_tf.calibration.outcome import PredictionOutcome
from ipu_tf.calibration.predict import KINDS, Predictor
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.machine.target import Target

__all__ = ["PREDICTORS"]


def _model(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    from ipu_tf.validation import predict_model  # Keras takes seconds to load.

    return predict_model.model(record, target)


PREDICTORS: Mapping[str, Predictor] = {**KINDS, "model": _model}
"""All kinds of measurements that can be predicted."""
