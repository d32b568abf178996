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

from ipu_tf.zoo.layers import AddedMaskAttention, CausalMask, Gelu, QueryFirstAttention
from ipu_tf.zoo.stage_placement import Block

_MLP_FACTOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """The layers of a transformer: self-attention and a perceptron, each with a residual sum.

    Attributes:
        width: Channels of a token.
        heads: Heads of the attention.
        dropout: Rate of dropout of attention weights and of the results of sub-layers.
        hidden_dropout: Whether the hidden values of the perceptron are dropped at that rate, too.
        norm_first: Whether a norm is before each sub-layer, instead of after each sum.
        causal: Whether tokens see only earlier ones.
        approximate_gelu: Whether the perceptron's GELU is the one with tanh.
        epsilon: Of the norms.
    """

    width: int
    heads: int
    dropout: float = 0.1
    hidden_dropout: bool = False
    norm_first: bool = False
    causal: bool = False
    approximate_gelu: bool = False
    epsilon: float = 1e-12

    def layers(self, depth: int, mask: keras.KerasTensor | None = None) -> list[Block]:
        """Returns the layers as blocks "0", "1" and so on, from tokens to tokens.

        Args:
            depth: Their number.
            mask: Symbolic int32[batch, n], 1 for tokens that others see; None if all are seen.
        """
        mask_of = (
            (lambda tokens: mask) if not self.causal else _once(CausalMask(name="causal_mask"))
        )
        return [(str(number), self._layer(str(number), mask_of)) for number in range(depth)]

    def _layer(self, name: str, mask_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(tokens: Any) -> Any:
            attention, mask = f"{name}_attention", mask_of(tokens)
            tokens = self._residual(tokens, attention, lambda x: self._attention(x, name, mask))
            return self._residual(tokens, f"{name}_mlp", lambda x: self._perceptron(x, name))

        return call

    def _residual(self, x: Any, name: str, sub_layer: Callable[[Any], Any]) -> Any:
        norm = layers.LayerNormalization(epsilon=self.epsilon, name=f"{name}_norm")
        y = sub_layer(norm(x) if self.norm_first else x)
        if self.dropout:
            y = layers.Dropout(self.dropout, name=f"{name}_dropout")(y)
        y = layers.Add(name=f"{name}_sum")([x, y])
        return y if self.norm_first else norm(y)

    def _attention(self, x: Any, name: str, mask: Any) -> Any:
        heads, width = self.heads, self.width // self.heads
        options: Any = {"dropout": self.dropout, "name": f"{name}_attention"}
        if mask is None:
            return QueryFirstAttention(heads, width, **options)(x, x)
        if len(mask.shape) == 2:
            mask = layers.Reshape((1, -1), name=f"{name}_mask")(mask)
        attention = AddedMaskAttention(heads, width, **options)
        # With the weights asked for, Keras leaves the softmax to the layer.
        return attention(x, x, attention_mask=mask, return_attention_scores=True)[0]

    def _perceptron(self, x: Any, name: str) -> Any:
        hidden = layers.Dense(_MLP_FACTOR * self.width, name=f"{name}_mlp_1")(x)
        hidden = Gelu(self.approximate_gelu, name=f"{name}_gelu")(hidden)
        if self.hidden_dropout and self.dropout:
            hidden = layers.Dropout(self.dropout, name=f"{name}_hidden_dropout")(hidden)
        return layers.Dense(self.width, name=f"{name}_mlp_2")(hidden)


def _once(layer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a function that calls a layer on its first argument, and later gives that result.

    A mask of each layer's own would be a constant of each, of megabytes for long sequences.
    """
    results: list[Any] = []

    def call(tokens: Any) -> Any:
        if not results:
            results.append(layer(tokens))
        return results[0]

    return call
