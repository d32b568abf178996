"""Calls of started programs in graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from ipu_tf.serving.descriptions import InputDescription


def host_call(
    call: Callable[..., Sequence[tf.Tensor]],
    inputs: Sequence[tf.Tensor],
    outputs: Sequence[InputDescription],
) -> list[tf.Tensor]:
    """Returns the results of a function that the host calls when the graph runs.

    Args:
        call: The function of eager tensors.
        inputs: Its arguments.
        outputs: Shapes and dtypes of its results.
    """
    results = tf.py_function(call, list(inputs), [output.dtype for output in outputs])
    for result, output in zip(results, outputs, strict=True):
        result.set_shape(output.shape)
    return list(results)
