"""Which Keras may come up in a process: Keras 3, and tf_keras, which is Keras 2."""

from __future__ import annotations

import importlib.util
import os
import sys

import keras

_CHOICES = ("1", "true")
"""The values of TF_USE_LEGACY_KERAS, in lower case, by which `tf.keras` is tf_keras."""


def may_use_tf_keras() -> bool:
    """Returns whether tf_keras is loaded, or is installed and chosen for `tf.keras`."""
    if sys.modules.get("tf_keras") is not None:
        return True
    is_chosen = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in _CHOICES
    return is_chosen and importlib.util.find_spec("tf_keras") is not None


def optimizer_classes() -> tuple[type, ...]:
    """Returns the base classes of the optimizers of every Keras that is loaded."""
    of_keras_2 = getattr(sys.modules.get("tf_keras"), "optimizers", None)
    if of_keras_2 is None:
        return (keras.optimizers.Optimizer,)
    return keras.optimizers.Optimizer, of_keras_2.Optimizer, of_keras_2.legacy.Optimizer
