"""A mark on values that are kept when others are recomputed."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("ipu_tf")
class RecomputationCheckpoint(keras.layers.Layer):
    """Passes on its inputs; a pipeline stage keeps them when it recomputes its activations.

    It shortens the part of a stage that is recomputed at once, and so reduces the memory for it.
    It applies to `RecomputationMode.RecomputeAndBackpropagateInterleaved` and has no effect in
    `RecomputeThenBackpropagate`. The values and gradients stay the same.
    """

    def call(self, inputs: Any) -> Any:
        """Returns the inputs, a tensor or a structure of tensors."""
        return keras.tree.map_structure(tf.identity, inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        """Returns the shapes and dtypes of the results."""
        return keras.tree.map_structure(
            lambda spec: keras.KerasTensor(spec.shape, dtype=spec.dtype), inputs
        )
