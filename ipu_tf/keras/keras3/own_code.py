"""Whether the step of a model runs code of a user's, which may look at the number of samples."""

from __future__ import annotations

import types
from typing import Any

import keras

from ipu_tf.internals.keras_layers import layers_within
from ipu_tf.internals.keras_training import function_of

_OURS = frozenset({"keras", "ipu_tf"})


def runs_own_code(model: keras.Model) -> bool:
    """Returns whether the step of a model runs code that is neither Keras' nor of this package.

    Args:
        model: A compiled model.
    """
    parts = [model, *layers_within(model), *model.metrics, model.optimizer]
    parts += keras.tree.flatten(model.loss)
    return not all(part is None or isinstance(part, str) or is_of_ours(part) for part in parts)


def is_class_of_ours(kind: type) -> bool:
    """Returns whether a class is Keras' or of this package."""
    return _package(kind) in _OURS


def is_of_ours(part: object) -> bool:
    """Returns whether the code of a layer, or of another part of a model, is Keras' or of us."""
    if isinstance(part, keras.layers.Lambda):
        return False
    functions = [function_of(part), *vars(part).values()] if hasattr(part, "__dict__") else []
    parts = [one for one in functions if isinstance(one, types.FunctionType | type)]
    owner = part if isinstance(part, types.FunctionType) else type(part)
    return all(_package(one) in _OURS for one in (owner, *parts))


def _package(value: Any) -> str:
    return str(value.__module__).partition(".")[0]
