"""A mark on values that are the same on every replica."""

from __future__ import annotations

import keras
import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.graphs import Structure
from ipu_tf.keras.layers.ipu_layer import AnyKeras


class AssumeEqualAcrossReplicasBody(AnyKeras):
    """The parts of `AssumeEqualAcrossReplicas` that are the same over any Keras."""

    def __init__(self, inplace: bool = False, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.inplace = inplace

    def call(self, inputs: TensorStructure) -> TensorStructure:
        """Returns the inputs, a tensor or a structure of tensors."""
        return keras.tree.map_structure(tf.identity, inputs)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {**super().get_config(), "inplace": self.inplace}


@keras.saving.register_keras_serializable("ipu_tf")
class AssumeEqualAcrossReplicas(AssumeEqualAcrossReplicasBody, keras.layers.Layer):
    """Passes on its inputs and marks them as equal on every replica.

    The compiler may then let conditions depend on them. The values stay the same.

    Args:
        inplace: Whether the device marks the tensor itself instead of a copy of it.
        **kwargs: Arguments of every layer.
    """

    def compute_output_spec(self, inputs: Structure) -> Structure:
        """Returns the shapes and dtypes of the results."""
        return keras.tree.map_structure(_same, inputs)


def _same(spec: keras.KerasTensor) -> keras.KerasTensor:
    return keras.KerasTensor(spec.shape, dtype=spec.dtype)
