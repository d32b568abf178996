"""The layer that calls the op."""

from __future__ import annotations

from pathlib import Path

import keras
import tensorflow as tf

from ipu_tf.ops.custom_ops import precompiled_user_op

FOLDER = Path(__file__).resolve().parent


class Snake(keras.layers.Layer):
    """Returns x + sin(a x)^2 / a, with a trainable frequency `a` for each feature."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Creates the frequencies."""
        self.frequency = self.add_weight(shape=shape[-1:], initializer="ones", name="frequency")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns float32[batch, features]."""
        (result,) = precompiled_user_op(
            [inputs, self.frequency],
            library_path=str(FOLDER / "snake.cpp"),
            gp_path=str(FOLDER / "snake_codelets.cpp"),
            outs={"output_types": [inputs.dtype], "output_shapes": [inputs.shape]},
            name="snake",
        )
        return result


def stock_snake(x: tf.Tensor, frequency: tf.Tensor) -> tf.Tensor:
    """Returns the same by TensorFlow's ops."""
    return x + tf.sin(frequency * x) ** 2 / frequency
