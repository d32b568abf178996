"""Random operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


@tf.autograph.experimental.do_not_convert
def dropout(
    x: tf.Tensor,
    rate: float = 0.5,
    noise_shape: tf.Tensor | Sequence[int] | None = None,
    seed: tf.Tensor | None = None,
    name: str | None = None,
    **kwargs: object,
) -> tf.Tensor:
    """Returns `x` with a share of its values set to 0 and the others scaled by 1 / (1 - rate).

    Args:
        x: A float tensor.
        rate: Share of the values that are set to 0, from 0 up to but not including 1.
        noise_shape: Shape of the mask, of the rank of `x`: every extent is that of `x`, or 1 to
            share one value along it. None, or an empty list, means the shape of `x`.
        seed: A pair of whole numbers that gives the same mask at every call; None draws a new mask
            at every call.
        name: Name scope of the operations.
        **kwargs: `ref` and `seed_modifier`, accepted without effect.

    Raises:
        TypeError: There is no argument of that name.
        ValueError: `rate`, `noise_shape` or `seed` is out of its range.
    """
    unknown = sorted(kwargs.keys() - {"ref", "seed_modifier"})
    if unknown:
        raise TypeError(f"dropout() got an unexpected keyword argument {unknown[0]!r}.")
    x = tf.convert_to_tensor(x)
    if not 0 <= rate < 1:
        raise ValueError(
            f"dropout: the rate must be from 0 up to but not including 1. Received: rate={rate!r}."
        )
    noise_shape = None if noise_shape is None else tuple(noise_shape) or None
    if noise_shape is not None:
        _check_noise_shape(x, noise_shape)
    with tf.name_scope(name or "dropout"):
        if seed is None:
            return tf.nn.dropout(x, rate, noise_shape=noise_shape)
        seed = tf.convert_to_tensor(seed)
        if seed.shape != (2,):
            raise ValueError(f"dropout: the seed must have shape [2]. Received: {seed.shape}.")
        return tf.nn.experimental.stateless_dropout(x, rate, seed, noise_shape=noise_shape)


def _check_noise_shape(x: tf.Tensor, noise_shape: tuple[Any, ...]) -> None:
    fits = len(noise_shape) == x.shape.rank and all(
        extent in (1, of_x) for extent, of_x in zip(noise_shape, x.shape, strict=True)
    )
    if not fits:
        raise ValueError(
            "dropout: noise_shape must have the rank of the input, and every extent that of the "
            f"input or 1. Received: noise_shape={noise_shape}, input of shape {x.shape}."
        )
