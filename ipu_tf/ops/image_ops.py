"""Images on the device."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_DTYPES = (tf.float16, tf.float32, tf.uint8)
_CHANNELS = 3


@tf.autograph.experimental.do_not_convert
def normalise_image(
    image: tf.Tensor,
    channel_offsets: tf.Tensor,
    channel_scales: tf.Tensor,
    scale: float = 1,
    name: str | None = None,
) -> tf.Tensor:
    """Returns (image * scale - channel_offsets) * channel_scales, with a fourth channel of zeros.

    Images are sent to the device with three channels of a byte; convolutions prefer four.

    Args:
        image: float16, float32 or uint8 of shape [..., 3].
        channel_offsets: Offset of each channel, of shape [3].
        channel_scales: Scale of each channel, of shape [3].
        scale: Scale of the image.
        name: Name scope of the operations.

    Returns:
        A tensor of shape [..., 4]: float16 for uint8 images, of the image's dtype otherwise.

    Raises:
        ValueError: The dtype is another, the last axis is not of size 3, or the offsets or scales
            do not have shape [3].
    """
    image = tf.convert_to_tensor(image)
    if image.dtype not in _DTYPES:
        raise ValueError(
            "normalise_image: the image must be float16, float32 or uint8. "
            f"Received: {image.dtype.name}."
        )
    if image.shape.rank is None or image.shape.rank < 1 or image.shape[-1] != _CHANNELS:
        raise ValueError(
            f"normalise_image: the last axis of the image must have size {_CHANNELS}. "
            f"Received: shape {image.shape}."
        )
    dtype = tf.float16 if image.dtype == tf.uint8 else image.dtype
    offsets = _of_channels("channel_offsets", channel_offsets, dtype)
    scales = _of_channels("channel_scales", channel_scales, dtype)
    with tf.name_scope(name or "normalise_image"):
        normalised = (tf.cast(image, dtype) * tf.cast(scale, dtype) - offsets) * scales
        fourth = [[0, 0]] * (image.shape.rank - 1) + [[0, 1]]
        return tf.pad(normalised, fourth)


def _of_channels(label: str, values: Any, dtype: tf.DType) -> tf.Tensor:
    tensor = tf.cast(values, dtype)
    if tensor.shape != (_CHANNELS,):
        raise ValueError(
            f"normalise_image: `{label}` must have shape [{_CHANNELS}]. "
            f"Received: shape {tensor.shape}."
        )
    return tensor
