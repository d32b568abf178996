"""EfficientNet, also with group convolutions in place of depthwise ones.

Sources: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks",
arXiv 1905.11946, table 1 and section 3.3, with the widths, depths and dropout rates of the authors'
code for B0 and B4; Masters et al., "Making EfficientNet More Efficient", arXiv 2106.03640: group
convolutions of 16 channels a group, an expansion of 4 instead of 6, and group norm of 4 groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.images import Norm, normalized, pixels, standardized
from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain

_NORM_GROUPS = 4
_NORM_EPSILON = 1e-3
_SQUEEZE = 4
"""The excitation has a quarter of the block's input channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """A row of the paper's table 1."""

    kernel: int
    strides: int
    channels: int
    repeats: int
    expands: bool = True


_STAGES = (
    _Stage(kernel=3, strides=1, channels=16, repeats=1, expands=False),
    _Stage(kernel=3, strides=2, channels=24, repeats=2),
    _Stage(kernel=5, strides=2, channels=40, repeats=2),
    _Stage(kernel=3, strides=2, channels=80, repeats=3),
    _Stage(kernel=5, strides=1, channels=112, repeats=3),
    _Stage(kernel=5, strides=2, channels=192, repeats=4),
    _Stage(kernel=3, strides=1, channels=320, repeats=1),
)
_STEM_CHANNELS = 32
_HEAD_CHANNELS = 1280


@dataclass(frozen=True, slots=True, kw_only=True)
class CompoundScaling:
    """A size of EfficientNet.

    Attributes:
        name: Its name.
        width: Factor of the channels.
        depth: Factor of the blocks of a stage.
        dropout: Rate of dropout before the classes.
        group_size: Channels of a group of the spatial convolutions.
        expansion: Factor by which a block widens its input.
        norm: The norm after every convolution.
        drop_connect: Rate at which the last block is skipped; it rises from 0 over the blocks.
    """

    name: str
    width: float
    depth: float
    dropout: float
    group_size: int = 1
    expansion: int = 6
    norm: Norm = "batch"
    drop_connect: float = 0.2

    def channels(self, base: int) -> int:
        """Returns channels scaled by the width, in multiples of 8, never below 90%."""
        scaled = base * self.width
        rounded = max(8, int(scaled + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * scaled else rounded


def efficientnet(
    network: CompoundScaling,
    *,
    image_size: int,
    classes: int = 1000,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns an EfficientNet, from uint8 images to probabilities of classes.

    Blocks are "stem", "1a", "2a", "2b" and so on, a letter for every block of a stage, and "head".
    """
    inputs = pixels(image_size)
    blocks = [("stem", lambda images: _stem(images, network)), *_blocks(network)]
    blocks.append(("head", lambda features: _head(features, network, classes)))
    return keras.Model(inputs, chain(inputs, blocks, placement), name=network.name)


def efficientnet_b0_g16(
    *, image_size: int = 224, classes: int = 1000, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns EfficientNet-B0 with group convolutions of 16 channels a group."""
    scaled = _group_convolutions("efficientnet_b0_g16", width=1.0, depth=1.0, dropout=0.2)
    return efficientnet(scaled, image_size=image_size, classes=classes, placement=placement)


def efficientnet_b4_g16(
    *, image_size: int = 380, classes: int = 1000, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns EfficientNet-B4 with group convolutions of 16 channels a group."""
    scaled = _group_convolutions("efficientnet_b4_g16", width=1.4, depth=1.8, dropout=0.4)
    return efficientnet(scaled, image_size=image_size, classes=classes, placement=placement)


def _group_convolutions(name: str, **scales: float) -> CompoundScaling:
    return CompoundScaling(name=name, group_size=16, expansion=4, norm="group", **scales)


def _blocks(network: CompoundScaling) -> Iterator[Block]:
    repeats = [math.ceil(network.depth * stage.repeats) for stage in _STAGES]
    blocks_before, channels = 0, network.channels(_STEM_CHANNELS)
    for number, (stage, count) in enumerate(zip(_STAGES, repeats, strict=True), 1):
        out = network.channels(stage.channels)
        for index in range(count):
            name = f"{number}{chr(ord('a') + index)}"
            strides = stage.strides if index == 0 else 1
            drop = network.drop_connect * blocks_before / sum(repeats)
            yield name, _Block(network, stage, name, channels, out, strides, drop)
            blocks_before, channels = blocks_before + 1, out


@dataclass(frozen=True, slots=True)
class _Block:
    """An inverted bottleneck with squeeze and excitation."""

    network: CompoundScaling
    stage: _Stage
    name: str
    channels: int
    out: int
    strides: int
    drop: float

    def __call__(self, x: Any) -> Any:
        network, y, width = self.network, x, self.channels
        if self.stage.expands:
            width *= network.expansion
            y = _convolution(y, network, f"{self.name}_expand", width, 1)
        y = self._spatial(y, width)
        y = self._excited(y, width)
        y = _convolution(y, network, f"{self.name}_project", self.out, 1, activation=False)
        if self.strides > 1 or self.channels != self.out:
            return y
        if self.drop > 0:
            noise_shape = (None, 1, 1, 1)  # A whole sample is dropped.
            y = layers.Dropout(self.drop, noise_shape, name=f"{self.name}_drop")(y)
        return layers.Add(name=f"{self.name}_sum")([x, y])

    def _spatial(self, x: Any, width: int) -> Any:
        name, size = f"{self.name}_spatial", self.stage.kernel
        options = {"strides": self.strides, "padding": "same", "use_bias": False}
        if self.network.group_size == 1:
            layer = layers.DepthwiseConv2D(size, name=f"{name}_conv", **options)
        else:
            groups = width // self.network.group_size
            layer = layers.Conv2D(width, size, groups=groups, name=f"{name}_conv", **options)
        return _activated(layer(x), self.network, name)

    def _excited(self, x: Any, width: int) -> Any:
        squeezed = max(1, self.channels // _SQUEEZE)
        y = layers.GlobalAveragePooling2D(keepdims=True, name=f"{self.name}_squeeze")(x)
        y = layers.Conv2D(squeezed, 1, activation="swish", name=f"{self.name}_reduce")(y)
        y = layers.Conv2D(width, 1, activation="sigmoid", name=f"{self.name}_excite")(y)
        return layers.Multiply(name=f"{self.name}_scale")([x, y])


def _stem(images: Any, network: CompoundScaling) -> Any:
    channels = network.channels(_STEM_CHANNELS)
    return _convolution(standardized(images), network, "stem", channels, 3, strides=2)


def _head(features: Any, network: CompoundScaling, classes: int) -> Any:
    x = _convolution(features, network, "top", network.channels(_HEAD_CHANNELS), 1)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    x = layers.Dropout(network.dropout, name="dropout")(x)
    return layers.Dense(classes, activation="softmax", name="classes")(x)


def _convolution(
    x: Any,
    network: CompoundScaling,
    name: str,
    filters: int,
    size: int,
    *,
    strides: int = 1,
    activation: bool = True,
) -> Any:
    layer = layers.Conv2D(
        filters, size, strides=strides, padding="same", use_bias=False, name=f"{name}_conv"
    )
    if activation:
        return _activated(layer(x), network, name)
    return _normalized(layer(x), network, name)


def _activated(x: Any, network: CompoundScaling, name: str) -> Any:
    x = _normalized(x, network, name)
    return layers.Activation("swish", name=f"{name}_swish")(x)


def _normalized(x: Any, network: CompoundScaling, name: str) -> Any:
    return normalized(x, network.norm, f"{name}_norm", groups=_NORM_GROUPS, epsilon=_NORM_EPSILON)
