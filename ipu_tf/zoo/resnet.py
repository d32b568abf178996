"""Residual networks: ResNet-50 v1.5 and ResNeXt-101 32x4d.

Sources: He et al., "Deep Residual Learning for Image Recognition", arXiv 1512.03385, table 1; in
version 1.5 the 3x3 convolution of a unit has its stride, not the first 1x1 convolution (Goyal et
al., "Accurate, Large Minibatch SGD", arXiv 1706.02677, section 5.1). Xie et al., "Aggregated
Residual Transformations for Deep Neural Networks", arXiv 1611.05431, table 1; group norm of 32
groups as in Wu and He, "Group Normalization", arXiv 1803.08494.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.images import Norm, normalized, pixels, standardized
from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain

_NORM_GROUPS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """A residual network of bottleneck units.

    Attributes:
        name: Its name.
        units: Units of each stage; stage s begins with a stride of 2, except for the first.
        groups: Groups of a 3x3 convolution.
        group_width: Channels of a group in the first stage; they double from stage to stage.
        norm: The norm after every convolution.
        stem_channels: Channels of the first convolution; a unit of the first stage has four times
            as many.
    """

    name: str
    units: Sequence[int]
    groups: int = 1
    group_width: int = 64
    norm: Norm = "batch"
    stem_channels: int = 64


RESNET50 = Residual(name="resnet50", units=(3, 4, 6, 3))
RESNEXT101_32X4D = Residual(
    name="resnext101_32x4d", units=(3, 4, 23, 3), groups=32, group_width=4, norm="group"
)


def resnet50(
    *,
    image_size: int = 224,
    classes: int = 1000,
    norm: Norm = "batch",
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns ResNet-50 v1.5, from uint8 images to probabilities of classes.

    Block "s.u" is the end of unit u of stage s, its last ReLU; both count from 1.
    """
    return residual(
        dataclasses.replace(RESNET50, norm=norm),
        image_size=image_size,
        classes=classes,
        placement=placement,
    )


def resnext101_32x4d(
    *,
    image_size: int = 224,
    classes: int = 1000,
    norm: Norm = "group",
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns ResNeXt-101 32x4d; blocks as in `resnet50`."""
    return residual(
        dataclasses.replace(RESNEXT101_32X4D, norm=norm),
        image_size=image_size,
        classes=classes,
        placement=placement,
    )


def residual(
    network: Residual, *, image_size: int, classes: int, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns a residual network, from uint8 images to probabilities of classes."""
    inputs = pixels(image_size)
    blocks: list[Block] = [("stem", lambda images: _stem(images, network))]
    for stage, units in enumerate(network.units, 1):
        for unit in range(1, units + 1):
            blocks += _unit(network, stage, unit)
    blocks.append(("head", lambda features: _head(features, classes)))
    return keras.Model(inputs, chain(inputs, blocks, placement), name=network.name)


def _stem(images: Any, network: Residual) -> Any:
    x = _convolution(standardized(images), network, "stem", network.stem_channels, 7, strides=2)
    x = layers.ReLU(name="stem_relu")(x)
    return layers.MaxPooling2D(3, 2, padding="same", name="stem_pool")(x)


def _unit(network: Residual, stage: int, unit: int) -> list[Block]:
    """Returns a unit's two blocks: the sum of both its paths, and the ReLU that ends it."""
    name = f"{stage}.{unit}"
    scale = 2 ** (stage - 1)
    strides = 2 if stage > 1 and unit == 1 else 1

    def paths(x: Any) -> Any:
        width, out = network.groups * network.group_width * scale, 4 * network.stem_channels * scale
        shortcut = x
        if unit == 1:
            shortcut = _convolution(x, network, f"{name}_shortcut", out, 1, strides=strides)
        y = _convolution(x, network, f"{name}_1", width, 1)
        y = layers.ReLU(name=f"{name}_1_relu")(y)
        y = _convolution(y, network, f"{name}_2", width, 3, strides=strides, groups=network.groups)
        y = layers.ReLU(name=f"{name}_2_relu")(y)
        y = _convolution(y, network, f"{name}_3", out, 1)
        return layers.Add(name=f"{name}_sum")([shortcut, y])

    return [(f"{name}.sum", paths), (name, layers.ReLU(name=f"{name}_relu"))]


def _convolution(
    x: Any, network: Residual, name: str, filters: int, size: int, **options: Any
) -> Any:
    x = layers.Conv2D(
        filters,
        size,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
        name=f"{name}_conv",
        **options,
    )(x)
    return normalized(x, network.norm, f"{name}_norm", groups=_NORM_GROUPS)


def _head(features: Any, classes: int) -> Any:
    pooled = layers.GlobalAveragePooling2D(name="pool")(features)
    return layers.Dense(classes, activation="softmax", name="classes")(pooled)
