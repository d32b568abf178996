"""Batch norms of TensorFlow with scales and offsets in half precision."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.internals.tensorflow import nn_kernels

_FUSED_BATCH_NORMS = Patch(nn_kernels, "fused_batch_norm_v3", "their scales may be halves")


def _with_halves(notify: Notify) -> Wrap:
    """Returns the factory of a norm whose scale, offset and moments may be of float16."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def norm(
            x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *args: Any, **kwargs: Any
        ) -> Any:
            if getattr(scale, "dtype", None) != tf.float16:
                return _unjoined(stock(x, scale, offset, mean, variance, *args, **kwargs))
            notify()
            floats = (tf.cast(value, tf.float32) for value in (scale, offset, mean, variance))
            result = stock(x, *floats, *args, **kwargs)
            moments = (tf.cast(moment, tf.float16) for moment in result[1:3])
            return _unjoined(type(result)(result[0], *moments, *result[3:]))

        return norm

    return wrap


def _unjoined(result: Any) -> Any:
    """Returns the results of a norm, which TensorFlow does not join with the ReLU after it.

    In half precision, in loops of sessions on processors with AVX512-FP16, it joins them to an op
    that has no kernel.
    """
    values = result[0]
    if values.dtype != tf.float16 or tf.executing_eagerly():
        return result
    return type(result)(tf.ensure_shape(values, values.shape), *result[1:])


SPELLINGS = (
    Spelling(
        name="`tf.compat.v1.nn.fused_batch_norm` with a float16 `scale`",
        before="The vendor's TensorFlow took it and returned moments of float16.",
        here="It computes with float32 and returns moments of float16.",
        wraps=MappingProxyType({_FUSED_BATCH_NORMS: _with_halves}),
    ),
)
