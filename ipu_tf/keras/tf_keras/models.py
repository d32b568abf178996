"""`Model` and `Sequential` of tf_keras that are IPU models wherever they are made."""

from __future__ import annotations

import tf_keras

from ipu_tf.internals.tf_keras import TfKerasFunctional, is_functional_call
from ipu_tf.keras.tf_keras.construction import (
    TfKerasFunctionalModel,
    TfKerasSequential,
    TfKerasSubclass,
)

__all__ = ["Model", "Sequential"]


class Model(TfKerasSubclass):
    """See `ipu_tf.keras.Model`, for layers of tf_keras."""

    _stands_for = tf_keras.Model

    def __new__(cls, *args: object, **kwargs: object) -> Model:
        """Returns an uninitialised model, a functional one for inputs and outputs."""
        is_functional = cls is Model and is_functional_call(args, kwargs)
        return super().__new__(_Functional if is_functional else cls)


class _Functional(Model, TfKerasFunctionalModel):
    """A `Model` of inputs and outputs."""

    _stands_for = TfKerasFunctional


class Sequential(TfKerasSequential):
    """See `ipu_tf.keras.Sequential`, for layers of tf_keras."""

    _stands_for = tf_keras.Sequential
