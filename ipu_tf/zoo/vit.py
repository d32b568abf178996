"""Vision transformers: ViT-B/16.

Source: Dosovitskiy et al., "An Image is Worth 16x16 Words", arXiv 2010.11929, table 1; pre-training
has a classification head of one hidden layer with tanh (section 3.1); dropout is after every dense
layer but those of queries, keys and values (appendix B.1).
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.images import pixels, standardized
from ipu_tf.zoo.layers import Position
from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain
from ipu_tf.zoo.transformer import Transformer

_PATCH = 16
_NORM_EPSILON = 1e-6


def vit_b16(
    *,
    image_size: int = 224,
    classes: int = 1000,
    dropout: float = 0.1,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns ViT-B/16 with the head of pre-training, from uint8 images to probabilities.

    Blocks are "patches", encoder layers "0" to "11", and "head".
    """
    inputs = pixels(image_size)
    encoder = Transformer(
        width=width,
        heads=heads,
        dropout=dropout,
        hidden_dropout=True,
        norm_first=True,
        epsilon=_NORM_EPSILON,
    )
    blocks: list[Block] = [("patches", lambda images: _patches(images, image_size, width, dropout))]
    blocks += encoder.layers(depth)
    blocks.append(("head", lambda tokens: _head(tokens, width, classes)))
    return keras.Model(inputs, chain(inputs, blocks, placement), name="vit_b16")


def _patches(images: Any, image_size: int, width: int, dropout: float) -> Any:
    """Returns the tokens of an image: the class token, then the patches, with their positions."""
    patches = (image_size // _PATCH) ** 2
    x = layers.Conv2D(width, _PATCH, _PATCH, name="patches_embedding")(standardized(images))
    x = layers.Reshape((patches, width), name="patches_tokens")(x)
    x = ClassToken(name="patches_class")(x)
    x = Position(patches + 1, name="patches_positions")(x)
    return layers.Dropout(dropout, name="patches_dropout")(x)


def _head(tokens: Any, width: int, classes: int) -> Any:
    x = layers.LayerNormalization(epsilon=_NORM_EPSILON, name="head_norm")(tokens)
    x = layers.Dense(width, activation="tanh", name="head_hidden")(x[:, 0])
    return layers.Dense(classes, activation="softmax", name="classes")(x)


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class ClassToken(layers.Layer):
    """Puts a learnt token before the others: [batch, n, width] becomes [batch, n + 1, width]."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes the token."""
        self.token = self.add_weight(shape=(1, 1, input_shape[-1]), initializer="zeros")

    def call(self, tokens: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the tokens, the learnt one first."""
        batch, _, width = keras.ops.shape(tokens)
        first = keras.ops.broadcast_to(self.token, (batch, 1, width))
        return keras.ops.concatenate([first, tokens], axis=1)
