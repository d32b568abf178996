"""A mark on values that are kept when others are recomputed."""

from __future__ import annotations

import keras

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.graphs import Structure
from ipu_tf.keras.layers.ipu_layer import AnyKeras
from ipu_tf.ops.pipelining_ops import recomputation_checkpoint


class RecomputationCheckpointBody(AnyKeras):
    """The parts of `RecomputationCheckpoint` that are the same over any Keras."""

    def call(self, inputs: TensorStructure) -> TensorStructure:
        """Returns the inputs, a tensor or a structure of tensors."""
        return keras.tree.map_structure(recomputation_checkpoint, inputs)


@keras.saving.register_keras_serializable("ipu_tf")
class RecomputationCheckpoint(RecomputationCheckpointBody, keras.layers.Layer):
    """Passes on its inputs; a program keeps them when it recomputes activations.

    It applies to a model on one IPU if `allow_recompute` of the configuration is set, and to
    stages that recompute. It shortens the part that is recomputed at once, and so reduces the
    memory for it. It has no effect under `RecomputationMode.RecomputeThenBackpropagate`. The
    values and gradients stay the same.
    """

    def compute_output_spec(self, inputs: Structure) -> Structure:
        """Returns the shapes and dtypes of the results."""
        return keras.tree.map_structure(
            lambda spec: keras.KerasTensor(spec.shape, dtype=spec.dtype), inputs
        )
