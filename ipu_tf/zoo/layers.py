"""Layers that several networks of the zoo share."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ipu_tf.internals.keras_layers import dropout_of_attention

_HIDDEN_SCORE = 10_000.0
"""Subtracted from the scores of tokens that are not seen, as in the code of BERT's authors."""


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class Gelu(layers.Layer):
    """The Gaussian error linear unit, exact or with tanh."""

    def __init__(self, approximate: bool = False, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.approximate = approximate

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the unit of every element."""
        return keras.ops.gelu(x, approximate=self.approximate)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "approximate": self.approximate}


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class AddedMaskAttention(layers.MultiHeadAttention):
    """Attention that adds a large negative number to the scores of tokens that are not seen.

    So do the codes of BERT and of GPT-2. Keras selects scores before the softmax and weights after
    it, each in a pass over all of them.
    """

    def _masked_softmax(self, attention_scores: Any, attention_mask: Any = None) -> Any:
        """Returns the weights [batch, heads, n, m]; Keras calls it with the scores.

        Args:
            attention_scores: [batch, heads, n, m].
            attention_mask: [batch, n, m] or what broadcasts to it, 1 for tokens that are seen.
        """
        if attention_mask is not None:
            mask = keras.ops.cast(attention_mask, attention_scores.dtype)
            attention_scores += keras.ops.expand_dims((mask - 1) * _HIDDEN_SCORE, -3)
        return keras.ops.softmax(attention_scores, axis=-1)


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class QueryFirstAttention(layers.MultiHeadAttention):
    """Attention that multiplies queries with keys and divides the scores, as the formula says.

    So do codes in PyTorch. Keras multiplies keys with scaled queries. On an IPU, rows of the left
    operand lie side by side in the product, so that the two are not equally fast to read.
    """

    def _compute_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> tuple[Any, Any]:
        """Returns results [batch, n, heads, width] and weights [batch, heads, n, m].

        Args:
            query: [batch, n, heads, width].
            key: [batch, m, heads, width].
            value: [batch, m, heads, width].
            attention_mask: bool[batch, n, m] or what broadcasts to it; None if all are seen.
            training: Whether weights are dropped.
            return_attention_scores: Of no effect: the weights are always returned.
        """
        query, value = (keras.ops.swapaxes(one, 1, 2) for one in (query, value))
        key = keras.ops.transpose(key, (0, 2, 3, 1))
        scores = keras.ops.matmul(query, key) / self.key_dim**0.5
        weights = self._masked_softmax(scores, attention_mask)
        kept = weights
        if self.dropout:
            kept = dropout_of_attention(self)(weights, training=training)
        return keras.ops.swapaxes(keras.ops.matmul(kept, value), 1, 2), weights


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class Position(layers.Layer):
    """Adds a learnt vector to the token at every position, [batch, n, width].

    Args:
        positions: Number of vectors, at least n.
    """

    def __init__(self, positions: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.positions = positions

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes a vector for each of the positions."""
        self.vectors = self.add_weight(
            shape=(self.positions, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="vectors",
        )

    def call(self, tokens: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the tokens with their positions."""
        return tokens + self.vectors[: tokens.shape[1]]

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "positions": self.positions}


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class RowSums(layers.Layer):
    """Adds up rows by the number of their group: [rows, width] gives [groups, width].

    Args:
        groups: Number of groups.
    """

    def __init__(self, groups: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.groups = groups

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the sums of the rows of each group; inputs are the rows and their groups."""
        rows, groups = inputs
        return keras.ops.segment_sum(rows, groups, num_segments=self.groups)

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the shape and dtype of the sums."""
        rows, _ = inputs
        return keras.KerasTensor((self.groups, *rows.shape[1:]), dtype=rows.dtype)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "groups": self.groups}


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class Rows(layers.Layer):
    """Picks rows by number: [rows, width] at int32[n] gives [n, width]."""

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the rows; inputs are the table and the numbers."""
        table, numbers = inputs
        return keras.ops.take(table, numbers, axis=0)


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class CausalMask(layers.Layer):
    """The mask with which tokens [batch, n, width] see only earlier ones: bool[1, n, n]."""

    def call(self, tokens: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the mask for so many tokens."""
        length = tokens.shape[1]
        places = keras.ops.arange(length)
        # Whole rows: TensorFlow folds what is smaller, and each reader has its copy of a constant.
        rows = keras.ops.broadcast_to(places[:, None], (length, length))
        return (rows >= places)[None]

    def compute_output_spec(self, tokens: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the shape and dtype of the mask."""
        return keras.KerasTensor((1, tokens.shape[1], tokens.shape[1]), dtype="bool")
