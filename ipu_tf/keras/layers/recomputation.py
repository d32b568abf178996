"""A mark on values that are kept where others are computed again."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("ipu_tf")
class RecomputationCheckpoint(keras.layers.Layer):
    """Passes its inputs on, which a pipeline stage keeps when it recomputes its activations.

    It cuts the part of a stage that is computed again at once, and with it the memory that this
    takes. It takes part in `RecomputationMode.RecomputeAndBackpropagateInterleaved` and has no
    effect in `RecomputeThenBackpropagate`. The values and gradients stay as they are.
    """

    def call(self, inputs: Any) -> Any:
        """Returns the inputs, a tensor or a structure of tensors."""
        return keras.tree.map_structure(tf.identity, inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        """Returns the shapes and dtypes of the results."""
        return keras.tree.map_structure(
            lambda spec: keras.KerasTensor(spec.shape, dtype=spec.dtype), inputs
        )
