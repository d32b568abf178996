"""ScaleAndTranslate, resizing with a kernel of any width, as products with two matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.runtime.extraction.compositions.resizing import (
    CompositionAttributes,
    normalise,
    resize,
)

Kernel = Callable[[tf.Tensor], tf.Tensor]
"""From distances, which are not negative, to weights."""


def scale_and_translate(
    attributes: CompositionAttributes,
    images: tf.Tensor,
    size: tf.Tensor,
    scale: tf.Tensor,
    translation: tf.Tensor,
) -> tf.Tensor:
    """Returns the result of ScaleAndTranslate."""
    sides = tf.shape(images)[1:3]
    rows, columns = (
        _weights(attributes, sides[side], size[side], scale[side], translation[side])
        for side in (0, 1)
    )
    return resize(images, rows, columns)


def scale_and_translate_gradient(
    attributes: CompositionAttributes,
    gradients: tf.Tensor,
    original: tf.Tensor,
    scale: tf.Tensor,
    translation: tf.Tensor,
) -> tf.Tensor:
    """Returns the result of ScaleAndTranslateGrad."""
    before, after = tf.shape(original)[1:3], tf.shape(gradients)[1:3]
    rows, columns = (
        _weights(attributes, before[side], after[side], scale[side], translation[side])
        for side in (0, 1)
    )
    return resize(gradients, tf.transpose(rows), tf.transpose(columns))


def _weights(
    attributes: CompositionAttributes,
    before: tf.Tensor,
    after: tf.Tensor,
    scale: tf.Tensor,
    translation: tf.Tensor,
) -> tf.Tensor:
    """Returns the weights [after, before] of one side."""
    radius, kernel = _KERNELS[attributes["kernel_type"]]
    step = 1.0 / scale
    width = tf.maximum(step, 1.0) if attributes["antialias"] else 1.0
    centres = tf.cast(tf.range(after), tf.float32) + 0.5
    position = (centres * step - step * translation)[:, tf.newaxis]
    pixels = tf.cast(tf.range(before), tf.float32) + 0.5
    # An output reads the pixels within the radius; it reads none if its centre is outside.
    reach = radius * width
    first, last = tf.math.ceil(position - reach - 0.5), tf.floor(position + reach - 0.5)
    is_inside = (pixels - 0.5 >= first) & (pixels - 0.5 <= last)
    is_inside &= (position >= 0.0) & (position <= tf.cast(before, tf.float32))
    weights = tf.where(is_inside, kernel(tf.abs(pixels - position) / width), 0.0)
    return normalise(weights)


def _lanczos(radius: float) -> tuple[float, Kernel]:
    def kernel(x: tf.Tensor) -> tf.Tensor:
        angle = math.pi * tf.maximum(x, 1e-3)
        value = radius * tf.sin(angle) * tf.sin(angle / radius) / (angle * angle)
        return tf.where(x <= 1e-3, 1.0, tf.where(x > radius, 0.0, value))

    return radius, kernel


def _gaussian(x: tf.Tensor) -> tf.Tensor:
    return tf.where(x >= 1.5, 0.0, tf.exp(-2.0 * x * x))


def _box(x: tf.Tensor) -> tf.Tensor:
    return tf.where(x < 0.5, 1.0, tf.where(tf.equal(x, 0.5), 0.5, 0.0))


def _triangle(x: tf.Tensor) -> tf.Tensor:
    return tf.maximum(1.0 - x, 0.0)


def _keys_cubic(x: tf.Tensor) -> tf.Tensor:
    far = tf.where(x >= 2.0, 0.0, ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0)
    return tf.where(x >= 1.0, far, ((1.5 * x - 2.5) * x) * x + 1.0)


def _mitchell_cubic(x: tf.Tensor) -> tf.Tensor:
    far = tf.where(x >= 2.0, 0.0, ((-7.0 / 18 * x + 2.0) * x - 10.0 / 3) * x + 16.0 / 9)
    return tf.where(x >= 1.0, far, ((7.0 / 6 * x - 2.0) * x) * x + 8.0 / 9)


_KERNELS: Mapping[str, tuple[float, Kernel]] = MappingProxyType(
    {
        "lanczos1": _lanczos(1.0),
        "lanczos3": _lanczos(3.0),
        "lanczos5": _lanczos(5.0),
        "gaussian": (1.5, _gaussian),
        "box": (1.0, _box),
        "triangle": (1.0, _triangle),
        "keyscubic": (2.0, _keys_cubic),
        "mitchellcubic": (2.0, _mitchell_cubic),
    }
)
"""Radius and weights of each kernel, as TensorFlow defines them (sampling_kernels.h)."""
