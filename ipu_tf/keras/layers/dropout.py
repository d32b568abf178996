"""Dropout."""

from __future__ import annotations

import keras
import tensorflow as tf

from ipu_tf.internals.structures import Shape
from ipu_tf.keras.layers.arguments import SeedPair
from ipu_tf.keras.layers.ipu_layer import AnyKeras, drop, seed_pair


class DropoutBody(AnyKeras):
    """The parts of `Dropout` that are the same over any Keras."""

    def __init__(
        self,
        rate: float,
        noise_shape: Shape | None = None,
        seed: SeedPair = None,
        *,
        ref: bool = True,
        **kwargs: object,
    ) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"Dropout: the rate must be from 0 to 1. Received: rate={rate!r}.")
        if not isinstance(ref, bool):
            raise TypeError(f"Dropout: `ref` must be True or False. Received: {ref!r}.")
        super().__init__(rate, noise_shape=noise_shape, **kwargs)
        self.seed = seed_pair("Dropout", seed)
        self.ref = ref

    def build(self, input_shape: Shape) -> None:
        """Checks the shape of the mask against that of the inputs."""
        shape = self.noise_shape
        if shape is not None and (
            len(shape) != len(input_shape)
            or any(
                None not in (extent, of_input) and extent not in (1, of_input)
                for extent, of_input in zip(shape, input_shape, strict=True)
            )
        ):
            raise ValueError(
                f"Dropout layer '{self.name}': noise_shape must have the rank of the inputs, and "
                "every extent that of the inputs or 1. "
                f"Received: noise_shape={shape}, inputs of shape {tuple(input_shape)}."
            )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the inputs, with dropout in training.

        Raises:
            ValueError: The rate is 1, in training.
        """
        if not training or not self.rate:
            return inputs
        if self.rate == 1:
            raise ValueError(
                f"Dropout layer '{self.name}': in training, the rate must be from 0 up to but not "
                f"including 1. Received: rate={self.rate!r}."
            )
        if self.seed is None:
            return super().call(inputs, training=True)
        return drop(inputs, self.rate, self.noise_shape, self.seed)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {**super().get_config(), "ref": self.ref}


@keras.saving.register_keras_serializable("ipu_tf")
class Dropout(DropoutBody, keras.layers.Dropout):
    """Keras' dropout, with a seed that fixes the mask.

    Args:
        rate: Share of the inputs that are set to 0, from 0 up to but not including 1. The others
            are scaled by 1 / (1 - rate).
        noise_shape: Shape of the mask, of the rank of the inputs; every extent is that of the
            inputs, or 1 or None to share one value along it. None means the inputs' shape.
        seed: A pair of whole numbers that gives the same mask at every call; None draws a new
            mask at every call.
        ref: Accepted for scripts that pass it, and kept in files; has no effect.
        **kwargs: Arguments of every layer.

    Raises:
        TypeError: `ref` is not a bool.
        ValueError: `rate`, `noise_shape` or `seed` is out of its range.
    """
