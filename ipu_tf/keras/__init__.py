"""Keras models, layers and optimizers for the simulated IPU."""

from ipu_tf.keras import layers, optimizers
from ipu_tf.keras.models import Model, Sequential

__all__ = ["Model", "Sequential", "layers", "optimizers"]
