"""Parts that the networks for images share: the input from the host, and norms by name."""

from __future__ import annotations

from typing import Literal, TypeAlias

import keras

Norm: TypeAlias = Literal["batch", "group"]

_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
"""Of the pixels of ImageNet, in [0, 1], by channel."""


def pixels(size: int) -> keras.KerasTensor:
    """Returns the input of images as a host sends them: uint8[batch, size, size, 3]."""
    return keras.Input((size, size, 3), dtype="uint8", name="pixels")


def standardized(images: keras.KerasTensor) -> keras.KerasTensor:
    """Returns images of 0 to 255 with the mean 0 and the variance 1 of ImageNet's channels."""
    scale = [1 / (255 * deviation) for deviation in _DEVIATION]
    offset = [-mean / deviation for mean, deviation in zip(_MEAN, _DEVIATION, strict=True)]
    return keras.layers.Rescaling(scale, offset, name="standardized")(images)


def normalized(
    values: keras.KerasTensor, norm: Norm, name: str, *, groups: int, epsilon: float = 1e-5
) -> keras.KerasTensor:
    """Returns values after batch norm, or after group norm of so many groups."""
    if norm == "batch":
        layer = keras.layers.BatchNormalization(momentum=0.9, epsilon=epsilon, name=name)
    else:
        layer = keras.layers.GroupNormalization(groups, epsilon=epsilon, name=name)
    return layer(values)
