"""The model classes of the vendor's earlier releases, for layers of tf_keras."""

from __future__ import annotations

from typing import Any

import tf_keras

from ipu_tf.compat.earlier_arguments import (
    AccumulatesByArguments,
    LayersAccumulateByArguments,
    PipelinesByArguments,
    StagesByArguments,
)
from ipu_tf.internals.tf_keras import TfKerasFunctional, is_functional_call
from ipu_tf.keras.tf_keras.construction import (
    TfKerasFunctionalModel,
    TfKerasSequential,
    TfKerasSubclass,
)

__all__ = ["Model", "PipelineModel", "PipelineSequential", "Sequential", "SequentialPipelineModel"]


class Model(AccumulatesByArguments, TfKerasSubclass):
    """A functional model; see `AccumulatesByArguments`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Returns an uninitialised model, a functional one for inputs and outputs."""
        is_functional = cls is Model and is_functional_call(args, kwargs)
        return super().__new__(_Functional if is_functional else cls)


class _Functional(Model, TfKerasFunctionalModel):
    """A `Model` of inputs and outputs."""

    _stands_for = TfKerasFunctional


class Sequential(LayersAccumulateByArguments, TfKerasSequential):
    """See `LayersAccumulateByArguments`."""

    _stands_for = tf_keras.Sequential


class PipelineModel(PipelinesByArguments, TfKerasFunctionalModel):
    """See `PipelinesByArguments`."""


class PipelineSequential(StagesByArguments, TfKerasSequential):
    """See `StagesByArguments`."""

    _layer_class = tf_keras.layers.Layer


SequentialPipelineModel = PipelineSequential
"""The name of `PipelineSequential` in still earlier releases."""
