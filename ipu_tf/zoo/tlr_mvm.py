"""Tile low-rank matrix-vector multiplication of complex numbers, as real pairs.

Source: Hong et al., "High-Performance Seismic Redatuming Using Tile Low-Rank Compression" and its
successors on other machines: a matrix of frequencies of seismic waves is cut into square tiles, and
each tile is the product of two thin matrices. A product with a vector takes three phases: the
right factors of each column of tiles, a change of order, and the left factors of each row.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.stage_placement import WHOLE, StagePlacement, chain


def tlr_mvm(
    *,
    tiles: int = 38,
    tile_size: int = 256,
    rank: int = 12,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns the product of a compressed matrix with complex vectors.

    Both are float32[batch, 2, tiles * tile_size]: the axis of size 2 has the real and the imaginary
    parts. The matrix has `tiles` tiles in a row and in a column. Blocks are "right" and "left".
    """
    inputs = keras.Input((2, tiles * tile_size), name="vectors")
    right = PairProduct(tiles, tile_size, tiles * rank, name="right")
    left = PairProduct(tiles, tiles * rank, tile_size, name="left")

    def reordered(vectors: Any) -> Any:
        """Puts the results of columns of tiles in the order of rows of tiles."""
        x = layers.Reshape((2, tiles, tiles, rank), name="columns")(right(vectors))
        x = layers.Permute((1, 3, 2, 4), name="rows")(x)
        return layers.Reshape((2, tiles * tiles * rank), name="ranks")(x)

    outputs = chain(inputs, [("right", reordered), ("left", left)], placement)
    return keras.Model(inputs, outputs, name="tlr_mvm")


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class PairProduct(layers.Layer):
    """Multiplies parts of complex vectors by a complex matrix each, all as real pairs.

    Args:
        parts: Number of parts.
        size: Elements of a part; vectors are [batch, 2, parts * size].
        out_size: Elements of a part of the result, [batch, 2, parts * out_size].
    """

    def __init__(self, parts: int, size: int, out_size: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.parts = parts
        self.size = size
        self.out_size = out_size

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes the matrices: real and imaginary parts."""
        del input_shape
        self.matrices = self.add_weight(
            shape=(2, self.parts, self.size, self.out_size), initializer="glorot_uniform"
        )

    def call(self, vectors: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the products, four real ones for a complex one."""
        split = keras.ops.reshape(vectors, (-1, 2, self.parts, self.size))
        products = keras.ops.einsum("bxps,ypso->xypbo", split, self.matrices)
        real = products[0, 0] - products[1, 1]
        imaginary = products[0, 1] + products[1, 0]
        both = keras.ops.transpose(keras.ops.stack([real, imaginary]), (2, 0, 1, 3))
        return keras.ops.reshape(both, (-1, 2, self.parts * self.out_size))

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        sizes = {"parts": self.parts, "size": self.size, "out_size": self.out_size}
        return {**super().get_config(), **sizes}
