"""Swin transformers: Swin-T.

Source: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", arXiv
2103.14030, section 3.1, figure 3 and table 7; stochastic depth of 0.2 as in section A2.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from ipu_tf.zoo.images import pixels, standardized
from ipu_tf.zoo.layers import Gelu
from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain
from ipu_tf.zoo.window_attention import WindowAttention

_PATCH = 4
_HEAD_WIDTH = 32
_MLP_FACTOR = 4
_NORM_EPSILON = 1e-5


def swin_t(
    *,
    image_size: int = 224,
    classes: int = 1000,
    width: int = 96,
    depths: tuple[int, ...] = (2, 2, 6, 2),
    window: int = 7,
    drop_path: float = 0.2,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns Swin-T, from uint8 images to probabilities.

    Blocks are "patches"; "s.u", unit u of stage s, both from 1; "merge2" and so on, which begin the
    later stages; and "head". `drop_path` is the rate at which the last unit is skipped; it rises
    from 0 over the units.
    """
    blocks: list[Block] = [("patches", lambda images: _patches(images, width))]
    unit, last = 0, sum(depths) - 1
    for stage, depth in enumerate(depths, 1):
        if stage > 1:
            blocks.append((f"merge{stage}", _merge(f"merge{stage}")))
        for number in range(depth):
            name = f"{stage}.{number + 1}"
            rate = drop_path * unit / max(1, last)
            blocks.append((name, _unit(name, window, shifted=number % 2 == 1, rate=rate)))
            unit += 1
    blocks.append(("head", lambda tokens: _head(tokens, classes)))
    inputs = pixels(image_size)
    return keras.Model(inputs, chain(inputs, blocks, placement), name="swin_t")


def _norm(name: str) -> Any:
    return layers.LayerNormalization(epsilon=_NORM_EPSILON, name=name)


def _patches(images: Any, width: int) -> Any:
    x = layers.Conv2D(width, _PATCH, _PATCH, name="patches_embedding")(standardized(images))
    return _norm("patches_norm")(x)


def _merge(name: str) -> Callable[[Any], Any]:
    """Returns the block that joins four neighbours to one token of twice the width."""

    def block(x: Any) -> Any:
        neighbours = Neighbours(name=f"{name}_neighbours")(x)
        neighbours = _norm(f"{name}_norm")(neighbours)
        return layers.Dense(2 * x.shape[-1], use_bias=False, name=f"{name}_reduction")(neighbours)

    return block


def _unit(name: str, window: int, *, shifted: bool, rate: float) -> Callable[[Any], Any]:
    """Returns a block of attention in windows and a perceptron, each with a residual sum."""

    def block(x: Any) -> Any:
        size, width = x.shape[1], x.shape[-1]
        side = min(window, size)
        attention = WindowAttention(
            width // _HEAD_WIDTH,
            side,
            # A single window has nothing to be shifted to.
            side // 2 if shifted and side < size else 0,
            name=f"{name}_attention",
        )
        y = attention(_norm(f"{name}_attention_norm")(x))
        x = _sum(x, y, f"{name}_attention", rate)
        hidden = layers.Dense(_MLP_FACTOR * width, name=f"{name}_mlp_1")(
            _norm(f"{name}_mlp_norm")(x)
        )
        hidden = Gelu(name=f"{name}_gelu")(hidden)
        return _sum(x, layers.Dense(width, name=f"{name}_mlp_2")(hidden), f"{name}_mlp", rate)

    return block


def _sum(x: Any, y: Any, name: str, rate: float) -> Any:
    """Returns x + y, without y in a share of the images of a batch."""
    if rate:
        y = layers.Dropout(rate, noise_shape=(None, 1, 1, 1), name=f"{name}_skip")(y)
    return layers.Add(name=f"{name}_sum")([x, y])


def _head(tokens: Any, classes: int) -> Any:
    x = layers.GlobalAveragePooling2D(name="head_pool")(_norm("head_norm")(tokens))
    return layers.Dense(classes, activation="softmax", name="classes")(x)


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class Neighbours(layers.Layer):
    """Joins the channels of 2 x 2 tokens: [batch, n, n, width] becomes [batch, n/2, n/2, 4 width].

    The order is that of the authors: down the first column, then down the second one.
    """

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the joined tokens."""
        _, rows, columns, width = x.shape
        parts = ops.reshape(x, (-1, rows // 2, 2, columns // 2, 2, width))
        parts = ops.transpose(parts, (0, 1, 3, 4, 2, 5))
        return ops.reshape(parts, (-1, rows // 2, columns // 2, 4 * width))
