"""Keras models that train on the simulated IPU."""

from ipu_tf.keras.models import Model, Sequential

__all__ = ["Model", "Sequential"]
