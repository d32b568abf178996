"""Embeddings with lookups that may be split into parts."""

from __future__ import annotations

import keras
import tensorflow as tf

from ipu_tf.internals.structures import Shape
from ipu_tf.keras.layers.arguments import Constraint, Initializer, Regularizer
from ipu_tf.keras.layers.ipu_layer import AnyKeras, refuse
from ipu_tf.ops import embedding_ops


class EmbeddingBody(AnyKeras):
    """The parts of `Embedding` that are the same over any Keras."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Initializer = "uniform",
        embeddings_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        embeddings_constraint: Constraint = None,
        mask_zero: bool = False,
        input_length: int | None = None,
        serialization_factor: int = 1,
        **kwargs: object,
    ) -> None:
        refuse(
            self,
            embeddings_regularizer=embeddings_regularizer,
            activity_regularizer=activity_regularizer,
            embeddings_constraint=embeddings_constraint,
            mask_zero=mask_zero,
            input_length=input_length,
        )
        embedding_ops.check_serialization("Embedding", serialization_factor, input_dim)
        super().__init__(
            input_dim, output_dim, embeddings_initializer=embeddings_initializer, **kwargs
        )
        self.serialization_factor = serialization_factor

    @property
    def input_dtype(self) -> str:
        """The dtype of the inputs: a Sequential that begins with this layer takes integers."""
        return "int32"

    def build(self, input_shape: Shape | None = None) -> None:
        """Makes the table."""
        if input_shape is not None and len(input_shape) != 2:
            raise ValueError(
                f"Embedding layer '{self.name}': the inputs must have shape [batch, input_length]. "
                f"Received: shape {tuple(input_shape)}."
            )
        super().build(input_shape)

    def call(
        self, inputs: tf.Tensor, inputs_are_sorted: bool = False, training: bool | None = None
    ) -> tf.Tensor:
        """Returns the rows that the integers name.

        Args:
            inputs: Integers of shape [batch, input_length].
            inputs_are_sorted: Whether they ascend, which saves the device the sorting.
            training: Has no effect.

        Returns:
            A tensor of shape [batch, input_length, output_dim].
        """
        del training
        self._check_integers(inputs)
        rows = embedding_ops.embedding_lookup(
            self.embeddings, inputs, self.serialization_factor, inputs_are_sorted
        )
        return keras.ops.cast(rows, self.compute_dtype)

    def _check_integers(self, inputs: tf.Tensor | keras.KerasTensor) -> None:
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if "int" not in dtype:
            raise ValueError(
                f"Embedding layer '{self.name}': the inputs must be integers, for example of "
                f"keras.Input(shape, dtype='int32'). Received: dtype {dtype}."
            )

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {**super().get_config(), "serialization_factor": self.serialization_factor}


@keras.saving.register_keras_serializable("ipu_tf")
class Embedding(EmbeddingBody, keras.layers.Embedding):
    """Keras' embedding of integers from 0 to `input_dim` - 1.

    Args:
        input_dim: Number of rows of the table.
        output_dim: Length of a row.
        embeddings_initializer: Initializer of the table.
        embeddings_regularizer: Not supported.
        activity_regularizer: Not supported.
        embeddings_constraint: Not supported.
        mask_zero: Not supported.
        input_length: Not supported.
        serialization_factor: Number of equal parts of the table that are looked up one after the
            other, which saves memory if another layer uses the table, too.
        **kwargs: Arguments of every layer.

    Raises:
        NotImplementedError: An unsupported argument is given.
        ValueError: `serialization_factor` is below 1 or does not divide `input_dim`.
    """

    def compute_output_spec(
        self,
        inputs: keras.KerasTensor,
        inputs_are_sorted: bool = False,
        training: bool | None = None,
    ) -> keras.KerasTensor:
        """Returns the shape and dtype of the result."""
        del inputs_are_sorted, training
        self._check_integers(inputs)
        return super().compute_output_spec(inputs)
