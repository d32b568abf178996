"""U-Net for images of 572 x 572 pixels.

Source: Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image Segmentation", arXiv
1505.04597, figure 1: convolutions without padding, and crops of the links, so that the map of
classes has 388 x 388 pixels.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain

_LEVELS = 4
_DROPOUT = 0.5


def unet_572(
    *,
    image_size: int = 572,
    channels: int = 1,
    classes: int = 2,
    width: int = 64,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns U-Net, from images to probabilities of the classes of pixels.

    Blocks are "down1" to "down4", "bottom", "up4" to "up1", and "head".
    """
    inputs = keras.Input((image_size, image_size, channels), name="pixels")
    links: dict[int, Any] = {}
    levels = range(1, _LEVELS + 1)
    blocks: list[Block] = [(f"down{level}", _down(level, width, links)) for level in levels]
    blocks.append(("bottom", lambda x: _bottom(x, width)))
    blocks += [(f"up{level}", _up(level, width, links)) for level in reversed(levels)]
    blocks.append(("head", layers.Conv2D(classes, 1, activation="softmax", name="classes")))
    return keras.Model(inputs, chain(inputs, blocks, placement), name="unet")


def _down(level: int, width: int, links: dict[int, Any]) -> Any:
    def block(x: Any) -> Any:
        if level > 1:
            x = layers.MaxPooling2D(name=f"down{level}_pool")(x)
        x = _convolutions(x, f"down{level}", width << (level - 1))
        if level == _LEVELS:
            x = layers.Dropout(_DROPOUT, name=f"down{level}_dropout")(x)
        links[level] = x
        return x

    return block


def _bottom(x: Any, width: int) -> Any:
    x = layers.MaxPooling2D(name="bottom_pool")(x)
    x = _convolutions(x, "bottom", width << _LEVELS)
    return layers.Dropout(_DROPOUT, name="bottom_dropout")(x)


def _up(level: int, width: int, links: dict[int, Any]) -> Any:
    def block(x: Any) -> Any:
        filters, name = width << (level - 1), f"up{level}"
        x = layers.Conv2DTranspose(filters, 2, 2, activation="relu", name=f"{name}_transpose")(x)
        link, side = links[level], x.shape[1]
        before = (link.shape[1] - side) // 2
        crop = (before, link.shape[1] - side - before)
        link = layers.Cropping2D((crop, crop), name=f"{name}_crop")(link)
        x = layers.Concatenate(name=f"{name}_link")([link, x])
        return _convolutions(x, name, filters)

    return block


def _convolutions(x: Any, name: str, filters: int) -> Any:
    for number in (1, 2):
        x = layers.Conv2D(filters, 3, activation="relu", name=f"{name}_conv{number}")(x)
    return x
