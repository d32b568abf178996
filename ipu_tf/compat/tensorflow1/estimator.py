"""`tf.estimator`: its modes, which functions of models compare, and errors for all else."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ipu_tf.compat.missing import Missing

_WHY = (
    "TensorFlow has had no estimators since version 2.16. Train the model with Keras' `fit` in the "
    "scope of an IPUStrategy, or compile its training step with ipu_compiler.compile"
)


class ModeKeys:
    """The modes of an estimator."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class Estimators(ModuleType):
    """A module whose names raise when they are used, apart from the modes."""

    ModeKeys = ModeKeys

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}", _WHY)
