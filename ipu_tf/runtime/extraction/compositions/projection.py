"""Projective transforms of images: gathers the source pixel of each output pixel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.runtime.extraction.compositions.resizing import CompositionAttributes


def transform(
    attributes: CompositionAttributes,
    images: tf.Tensor,
    transforms: tf.Tensor,
    output_shape: tf.Tensor,
    fill_value: tf.Tensor | float = 0.0,
) -> tf.Tensor:
    """Returns the result of ImageProjectiveTransformV2 or V3."""
    images.set_shape([None] * 4)
    transforms.set_shape([None, 8])
    fill_value = tf.cast(tf.cast(fill_value, images.dtype), tf.float32)
    x, y, finite = _sources(transforms, output_shape)
    into = _INTO_IMAGE[attributes["fill_mode"]]
    height, width = (tf.cast(tf.shape(images)[side], tf.float32) for side in (1, 2))
    x, y = into(x, width), into(y, height)
    if attributes["interpolation"] == "NEAREST":
        values = read(images, nearest_integer(y), nearest_integer(x), fill_value)
    else:
        values = interpolate(images, y, x, fill_value)
    values = tf.where(finite[..., tf.newaxis], values, fill_value)
    shape = [tf.shape(images)[0], output_shape[0], output_shape[1], tf.shape(images)[3]]
    return tf.cast(tf.reshape(values, shape), images.dtype)


def read(images: tf.Tensor, y: tf.Tensor, x: tf.Tensor, outside: tf.Tensor | float) -> tf.Tensor:
    """Returns pixels of images as float32 [batch, pixels, channels].

    Args:
        images: [batch, height, width, channels].
        y: Whole rows as float32, [batch or 1, pixels].
        x: Whole columns as float32, [batch or 1, pixels].
        outside: Value of pixels outside of the image.
    """
    batch, height, width, channels = tf.unstack(tf.shape(images), num=4)
    bottom, right = tf.cast(height - 1, tf.float32), tf.cast(width - 1, tf.float32)
    inside = (y >= 0.0) & (y <= bottom) & (x >= 0.0) & (x <= right)
    row = tf.cast(tf.where(inside, y, 0.0), tf.int32)
    column = tf.cast(tf.where(inside, x, 0.0), tf.int32)
    index = row * width + column
    index = tf.broadcast_to(index, [batch, tf.shape(index)[1]])
    flat = tf.reshape(images, [batch, height * width, channels])
    pixels = tf.cast(tf.gather(flat, index, axis=1, batch_dims=1), tf.float32)
    return tf.where(inside[..., tf.newaxis], pixels, outside)


def nearest_integer(value: tf.Tensor) -> tf.Tensor:
    """Returns values rounded to the nearest whole number, halves away from zero."""
    integer = tf.where(value < 0.0, tf.math.ceil(value), tf.floor(value))
    return tf.where(tf.abs(value - integer) >= 0.5, integer + tf.sign(value), integer)


def _sources(
    transforms: tf.Tensor, output_shape: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns x and y of the sources of output pixels, and whether they are finite.

    All are [batch or 1, pixels].
    """
    rows, columns = tf.meshgrid(tf.range(output_shape[0]), tf.range(output_shape[1]), indexing="ij")
    out_y = tf.cast(tf.reshape(rows, [1, -1]), tf.float32)
    out_x = tf.cast(tf.reshape(columns, [1, -1]), tf.float32)
    a, b, c, d, e, f, g, h = (transforms[:, index, tf.newaxis] for index in range(8))
    projection = g * out_x + h * out_y + 1.0
    finite = tf.not_equal(projection, 0.0)
    projection = tf.where(finite, projection, 1.0)
    x = (a * out_x + b * out_y + c) / projection
    y = (d * out_x + e * out_y + f) / projection
    return x, y, finite


def interpolate(
    images: tf.Tensor, y: tf.Tensor, x: tf.Tensor, outside: tf.Tensor | float
) -> tf.Tensor:
    """Returns values of images between their pixels, as float32 [batch, pixels, channels].

    Args:
        images: [batch, height, width, channels].
        y: Rows as float32, [batch or 1, pixels].
        x: Columns as float32, [batch or 1, pixels].
        outside: Value of pixels outside of the image.
    """
    top, left = tf.floor(y), tf.floor(x)
    down, right = (y - top)[..., tf.newaxis], (x - left)[..., tf.newaxis]

    def in_row(row: tf.Tensor) -> tf.Tensor:
        first, second = (read(images, row, column, outside) for column in (left, left + 1.0))
        return (1.0 - right) * first + right * second

    return (1.0 - down) * in_row(top) + down * in_row(top + 1.0)


def _reflect(value: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Maps coordinates in [dcba|abcd|dcba] to those in [abcd]."""
    twice = 2.0 * size
    below = twice * tf.floor(-value / twice) + value
    below = tf.where(below < -size, below + twice, -below - 1.0)
    above = value - twice * tf.floor(value / twice)
    above = tf.where(above >= size, twice - above - 1.0, above)
    return _into_range(value, below, above, size)


def _wrap(value: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Maps coordinates in [abcd|abcd|abcd] to those in [abcd]."""
    last = tf.maximum(size - 1.0, 1.0)
    below = value + size * (tf.floor(-value / last) + 1.0)
    above = value - size * tf.floor(value / last)
    return _into_range(value, below, above, size)


def _into_range(value: tf.Tensor, below: tf.Tensor, above: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    within = tf.where(value < 0.0, below, tf.where(value > size - 1.0, above, value))
    return _clip(within, size)


def _clip(value: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(value, 0.0, size - 1.0)


_INTO_IMAGE: Mapping[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = MappingProxyType(
    {
        "CONSTANT": lambda value, size: value,
        "NEAREST": _clip,
        "REFLECT": _reflect,
        "WRAP": _wrap,
    }
)
"""From coordinates anywhere to those in an image, by the fill mode."""
