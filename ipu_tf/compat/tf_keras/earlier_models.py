"""Model classes of their own, of tf_keras, which the vendor's earlier releases had.

Their options were arguments of the model, and their steps were weight updates.
"""

from __future__ import annotations

import tf_keras

from ipu_tf.compat.tf_keras.earlier_arguments import (
    AccumulatesByArguments,
    LayersAccumulateByArguments,
    PipelinesByArguments,
    StagesByArguments,
)
from ipu_tf.internals.tf_keras import TfKerasFunctional
from ipu_tf.keras.tf_keras import models

__all__ = ["Model", "PipelineModel", "PipelineSequential", "Sequential", "SequentialPipelineModel"]


class Model(AccumulatesByArguments, models.Model):
    """A functional model; see `AccumulatesByArguments`."""


class _Functional(Model, models.Functional):
    """A `Model` of inputs and outputs."""

    _stands_for = TfKerasFunctional


Model.functional_class = _Functional


class Sequential(LayersAccumulateByArguments, models.Sequential):
    """See `LayersAccumulateByArguments`."""

    _stands_for = tf_keras.Sequential


class PipelineModel(PipelinesByArguments, models.Functional):
    """See `PipelinesByArguments`."""


class PipelineSequential(StagesByArguments, models.Sequential):
    """See `StagesByArguments`."""

    _layer_class = tf_keras.layers.Layer


SequentialPipelineModel = PipelineSequential
"""The name of `PipelineSequential` in still earlier releases."""
