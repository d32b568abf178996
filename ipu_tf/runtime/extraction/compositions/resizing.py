"""Resizes images by one matrix product per side: row o holds the weights of output o."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import tensorflow as tf


class CompositionAttributes(TypedDict, total=False):
    """The attributes of ops that have a composition, each of its own."""

    align_corners: bool
    antialias: bool
    extrapolation_value: float
    fill_mode: str
    half_pixel_centers: bool
    interpolation: str
    kernel_type: str
    method: str
    num_sampled: int
    range_max: int
    unique: bool


Weights = Callable[[CompositionAttributes, tf.Tensor, tf.Tensor], tf.Tensor]
"""From the sizes of a side before and after to the weights [after, before]."""

_TABLE_SIZE = 1024
"""TensorFlow looks the weights of bicubic interpolation up in a table of so many steps."""
_SMALLEST_SUM = 1000.0 * 1.17549435e-38
"""Weights that add up to less are not scaled to a sum of one."""


def bicubic(attributes: CompositionAttributes, images: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the result of ResizeBicubic."""
    return _resized(_bicubic_weights, attributes, images, size)


def bicubic_gradient(
    attributes: CompositionAttributes, gradients: tf.Tensor, original: tf.Tensor
) -> tf.Tensor:
    """Returns the result of ResizeBicubicGrad."""
    size = tf.shape(original)[1:3]
    return tf.cast(_unresized(_bicubic_weights, attributes, gradients, size), original.dtype)


def area(attributes: CompositionAttributes, images: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the result of ResizeArea."""
    return _resized(_area_weights, attributes, images, size)


def nearest_gradient(
    attributes: CompositionAttributes, gradients: tf.Tensor, size: tf.Tensor
) -> tf.Tensor:
    """Returns the result of ResizeNearestNeighborGrad."""
    result = _unresized(_nearest_weights, attributes, gradients, size)
    return tf.cast(result, gradients.dtype)


def resize(images: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Returns images [batch, height, width, channels] resized by a matrix for each side."""
    images = tf.cast(images, tf.float32)
    images.set_shape([None] * 4)
    return tf.einsum("pw,bowc->bopc", columns, tf.einsum("oh,bhwc->bowc", rows, images))


def normalise(weights: tf.Tensor) -> tf.Tensor:
    """Returns weights [after, before] with row sums scaled to one, unless almost zero."""
    total = tf.reduce_sum(weights, axis=1, keepdims=True)
    return weights / tf.where(tf.abs(total) >= _SMALLEST_SUM, total, 1.0)


def _resized(
    weights: Weights, attributes: CompositionAttributes, images: tf.Tensor, size: tf.Tensor
) -> tf.Tensor:
    height, width = tf.shape(images)[1], tf.shape(images)[2]
    rows = weights(attributes, height, size[0])
    return resize(images, rows, weights(attributes, width, size[1]))


def _unresized(
    weights: Weights, attributes: CompositionAttributes, gradients: tf.Tensor, size: tf.Tensor
) -> tf.Tensor:
    """Returns the gradient of images of a given size from the gradient of the resized ones."""
    height, width = tf.shape(gradients)[1], tf.shape(gradients)[2]
    rows = tf.transpose(weights(attributes, size[0], height))
    columns = tf.transpose(weights(attributes, size[1], width))
    return resize(gradients, rows, columns)


def _scale(attributes: CompositionAttributes, before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """Returns the distance between neighbouring pixels of the result, in pixels of the input."""
    plain = _float(before) / _float(after)
    if not attributes["align_corners"]:
        return plain
    return tf.where(after > 1, _float(before - 1) / _float(tf.maximum(after - 1, 1)), plain)


def _bicubic_weights(
    attributes: CompositionAttributes, before: tf.Tensor, after: tf.Tensor
) -> tf.Tensor:
    outputs, scale = _float(tf.range(after)), _scale(attributes, before, after)
    centred = attributes["half_pixel_centers"]
    position = (outputs + 0.5) * scale - 0.5 if centred else outputs * scale
    first = tf.floor(position)
    step = tf.round((position - first) * _TABLE_SIZE) / _TABLE_SIZE
    sharpness = -0.5 if centred else -0.75
    distances = (1.0 + step, step, 1.0 - step, 2.0 - step)
    weights = tf.zeros([after, before])
    for tap, distance in enumerate(distances):
        source = tf.cast(first, tf.int32) + tap - 1
        bounded = tf.clip_by_value(source, 0, before - 1)
        weight = _cubic(distance, sharpness)
        if centred:
            weight = tf.where(tf.equal(source, bounded), weight, 0.0)
        weights += weight[:, tf.newaxis] * tf.one_hot(bounded, before)
    return normalise(weights) if centred else weights


def _cubic(distance: tf.Tensor, sharpness: float) -> tf.Tensor:
    """Returns the weights of Keys' cubic convolution for distances of zero to two pixels."""
    a, x = sharpness, distance
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return tf.where(x <= 1, near, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a)


def _area_weights(
    attributes: CompositionAttributes, before: tf.Tensor, after: tf.Tensor
) -> tf.Tensor:
    scale = _scale(attributes, before, after)
    start = (_float(tf.range(after)) * scale)[:, tf.newaxis]
    end = (_float(tf.range(1, after + 1)) * scale)[:, tf.newaxis]
    pixels = tf.range(before)
    # Beyond the image's border, its last pixel is read.
    until = tf.where(tf.equal(pixels, before - 1), float("inf"), _float(pixels + 1))
    overlap = tf.minimum(until, end) - tf.maximum(_float(pixels), start)
    return tf.maximum(overlap, 0.0) / scale


def _nearest_weights(
    attributes: CompositionAttributes, before: tf.Tensor, after: tf.Tensor
) -> tf.Tensor:
    outputs, scale = _float(tf.range(after)), _scale(attributes, before, after)
    if attributes["half_pixel_centers"]:
        source = tf.floor((outputs + 0.5) * scale)
    elif attributes["align_corners"]:
        source = tf.floor(outputs * scale + 0.5)
    else:
        source = tf.floor(outputs * scale)
    return tf.one_hot(tf.clip_by_value(tf.cast(source, tf.int32), 0, before - 1), before)


def _float(value: tf.Tensor) -> tf.Tensor:
    return tf.cast(value, tf.float32)
