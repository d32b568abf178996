"""Transformer layers that the zoo's networks share.

Source: Vaswani et al., "Attention Is All You Need", arXiv 1706.03762. The norm is after each
residual sum, as there, or before each sub-layer, as in GPT-2 and ViT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
from keras import layers

_MLP_FACTOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """The layers of a transformer: self-attention and a perceptron, each with a residual sum.

    Attributes:
        width: Channels of a token.
        heads: Heads of the attention.
        dropout: Rate of dropout of attention weights and of the results of sub-layers.
        norm_first: Whether a norm is before each sub-layer, instead of after each sum.
        causal: Whether tokens see only earlier ones.
        approximate_gelu: Whether the perceptron's GELU is the one with tanh.
        epsilon: Of the norms.
    """

    width: int
    heads: int
    dropout: float = 0.1
    norm_first: bool = False
    causal: bool = False
    approximate_gelu: bool = False
    epsilon: float = 1e-12

    def layer(self, name: str) -> Callable[[Any], Any]:
        """Returns the function from tokens to tokens of one layer, [batch, n, width] both.

        A pair of tokens and their mask, bool[batch, n], also is returned as a pair.
        """

        def call(values: Any) -> Any:
            tokens, mask = values if isinstance(values, list | tuple) else (values, None)
            tokens = self._residual(tokens, f"{name}_attention", self._attention(name, mask))
            tokens = self._residual(tokens, f"{name}_mlp", self._perceptron(name))
            return tokens if mask is None else (tokens, mask)

        return call

    def _residual(self, x: Any, name: str, sub_layer: Callable[[Any], Any]) -> Any:
        norm = layers.LayerNormalization(epsilon=self.epsilon, name=f"{name}_norm")
        y = sub_layer(norm(x) if self.norm_first else x)
        if self.dropout:
            y = layers.Dropout(self.dropout, name=f"{name}_dropout")(y)
        y = layers.Add(name=f"{name}_sum")([x, y])
        return y if self.norm_first else norm(y)

    def _attention(self, name: str, mask: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            # Keras' own layer projects all heads at once, and charges a softmax a head.
            attention = layers.MultiHeadAttention(
                self.heads,
                self.width // self.heads,
                dropout=self.dropout,
                name=f"{name}_attention",
            )
            rows = None if mask is None else layers.Reshape((1, -1), name=f"{name}_mask")(mask)
            return attention(x, x, attention_mask=rows, use_causal_mask=self.causal)

        return call

    def _perceptron(self, name: str) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            hidden = layers.Dense(_MLP_FACTOR * self.width, name=f"{name}_mlp_1")(x)
            hidden = Gelu(self.approximate_gelu, name=f"{name}_gelu")(hidden)
            return layers.Dense(self.width, name=f"{name}_mlp_2")(hidden)

        return call


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class Gelu(layers.Layer):
    """The Gaussian error linear unit, exact or with tanh."""

    def __init__(self, approximate: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approximate = approximate

    def call(self, x: Any) -> Any:
        """Returns the unit of every element."""
        return keras.ops.gelu(x, approximate=self.approximate)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "approximate": self.approximate}


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class Position(layers.Layer):
    """Adds a learnt vector to the token at every position, [batch, n, width]."""

    def build(self, input_shape: Any) -> None:
        """Makes a vector for each of the positions."""
        self.vectors = self.add_weight(
            shape=tuple(input_shape[1:]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="vectors",
        )

    def call(self, tokens: Any) -> Any:
        """Returns the tokens with their positions."""
        return tokens + self.vectors
