"""CropAndResize crops and resizes boxes of images; its gradients are the composition's."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.runtime.extraction.compositions.projection import interpolate, nearest_integer, read
from ipu_tf.runtime.extraction.compositions.resizing import CompositionAttributes


def crop_and_resize(
    attributes: CompositionAttributes,
    images: tf.Tensor,
    boxes: tf.Tensor,
    box_images: tf.Tensor,
    crop_size: tf.Tensor,
) -> tf.Tensor:
    """Returns the result of CropAndResize."""
    images.set_shape([None] * 4)
    boxes.set_shape([None, 4])
    outside = attributes.get("extrapolation_value", 0.0)
    height, width = (tf.cast(tf.shape(images)[side], tf.float32) for side in (1, 2))
    y = _positions(boxes[:, 0:1], boxes[:, 2:3], height, crop_size[0])
    x = _positions(boxes[:, 1:2], boxes[:, 3:4], width, crop_size[1])
    inside = ((y >= 0.0) & (y <= height - 1.0))[:, :, tf.newaxis]
    inside &= ((x >= 0.0) & (x <= width - 1.0))[:, tf.newaxis, :]
    count, pixels = tf.shape(boxes)[0], crop_size[0] * crop_size[1]

    def each(positions: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.where(inside, positions, 0.0), [count, pixels])

    rows, columns = each(y[:, :, tf.newaxis]), each(x[:, tf.newaxis, :])
    box_pixels = tf.gather(tf.cast(images, tf.float32), box_images)
    if attributes["method"] == "nearest":
        values = read(box_pixels, nearest_integer(rows), nearest_integer(columns), outside)
    else:
        values = interpolate(box_pixels, rows, columns, 0.0)
    values = tf.where(tf.reshape(inside, [count, pixels, 1]), values, outside)
    return tf.reshape(values, [count, crop_size[0], crop_size[1], tf.shape(images)[3]])


def gradient_of_image(
    attributes: CompositionAttributes,
    gradients: tf.Tensor,
    boxes: tf.Tensor,
    box_images: tf.Tensor,
    image_size: tf.Tensor,
) -> tf.Tensor:
    """Returns the result of CropAndResizeGradImage."""
    images = tf.zeros(tf.ensure_shape(image_size, [4]))
    with tf.GradientTape() as tape:
        tape.watch(images)
        crops = crop_and_resize(attributes, images, boxes, box_images, tf.shape(gradients)[1:3])
    return tf.convert_to_tensor(tape.gradient(crops, images, gradients))


def gradient_of_boxes(
    attributes: CompositionAttributes,
    gradients: tf.Tensor,
    images: tf.Tensor,
    boxes: tf.Tensor,
    box_images: tf.Tensor,
) -> tf.Tensor:
    """Returns the result of CropAndResizeGradBoxes."""
    with tf.GradientTape() as tape:
        tape.watch(boxes)
        crops = crop_and_resize(attributes, images, boxes, box_images, tf.shape(gradients)[1:3])
    return tape.gradient(crops, boxes, gradients)


def _positions(start: tf.Tensor, end: tf.Tensor, size: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Returns the coordinates [boxes, count] that one side of the crops reads."""
    last = size - 1.0
    step = (end - start) * last / tf.cast(tf.maximum(count - 1, 1), tf.float32)
    several = start * last + tf.cast(tf.range(count), tf.float32) * step
    return tf.where(count > 1, several, 0.5 * (start + end) * last)
