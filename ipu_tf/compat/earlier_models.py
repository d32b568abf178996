"""Model classes of their own, which the vendor's earlier releases had.

Their options were arguments of the model, and their steps were weight updates.
"""

from __future__ import annotations

from typing import Any

import keras

from ipu_tf.compat.earlier_arguments import (
    AccumulatesByArguments,
    LayersAccumulateByArguments,
    PipelinesByArguments,
    StagesByArguments,
)
from ipu_tf.internals.keras import KerasFunctional, is_functional_call
from ipu_tf.keras.keras3 import models

__all__ = ["Model", "PipelineModel", "PipelineSequential", "Sequential", "SequentialPipelineModel"]


class Model(AccumulatesByArguments, models.Model):
    """A functional model; see `AccumulatesByArguments`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Model:
        """Returns an uninitialised model, a functional one for inputs and outputs."""
        is_functional = cls is Model and is_functional_call(args, kwargs)
        return keras.Model.__new__(_Functional if is_functional else cls)


class _Functional(Model, models.Functional):
    """A `Model` of inputs and outputs."""

    _stands_for = KerasFunctional


class Sequential(LayersAccumulateByArguments, models.Sequential):
    """See `LayersAccumulateByArguments`."""

    _stands_for = keras.Sequential


class PipelineModel(PipelinesByArguments, models.Model):
    """See `PipelinesByArguments`."""


class PipelineSequential(StagesByArguments, models.Sequential):
    """See `StagesByArguments`."""

    _layer_class = keras.Layer


SequentialPipelineModel = PipelineSequential
"""The name of `PipelineSequential` in still earlier releases."""
