"""The rules for the inputs and outputs of a program: static shapes, at most 32 bits."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.runtime.execution.executable import Identity
from ipu_tf.runtime.tracing import static_shapes

_WIDE = frozenset({tf.float64, tf.int64, tf.uint64, tf.complex128})
_ADVICE = {
    tf.float64: "tf.float32",
    tf.int64: "tf.int32",
    tf.uint64: "tf.uint32",
}


def check_arguments(args: object, kwargs: object) -> None:
    """Checks the arguments of a run.

    Raises:
        TypeError: A tensor or array of 64 bits.
        ValueError: A tensor without a static shape, or a ragged or sparse one.
    """
    for path, value in _leaves((args, kwargs)):
        _check_width(value, path, "input")
        if static_shapes.is_static(value):
            continue
        if sparse := static_shapes.not_dense(value):
            raise ValueError(f"{path} of `strategy.run` is {sparse} before the run.")
        if isinstance(value, tf.Tensor):
            raise ValueError(
                f"{path} of `strategy.run` has shape {value.shape} which is not fully defined. "
                f"{static_shapes.advice(value.shape)}"
            )


def without_operations(outputs: TensorStructure) -> TensorStructure:
    """Returns a function's results with None in place of operations, such as loops without inputs.

    A tf.function cannot return an operation; the operations run because they have side effects.
    """
    if isinstance(outputs, tf.Operation):
        return None
    if isinstance(outputs, list | tuple) and any(isinstance(x, tf.Operation) for x in outputs):
        return tuple(without_operations(output) for output in outputs)
    return outputs


def check_results(results: TensorStructure) -> None:
    """Checks the results of a run.

    Raises:
        TypeError: A tensor of 64 bits.
    """
    for path, value in _leaves(results):
        _check_width(value, path, "output")


def _check_width(value: Any, path: str, kind: str) -> None:
    if not isinstance(value, tf.Tensor | np.ndarray):
        return
    dtype = tf.as_dtype(value.dtype)
    if dtype in _WIDE:
        advice = f": tf.cast it to {_ADVICE[dtype]}" if dtype in _ADVICE else ""
        raise TypeError(
            f"Unsupported data type for {kind}: {dtype.name} ({path} of `strategy.run`). The IPU "
            f"has no 64-bit types{advice}."
        )


_PLAIN = (bool, int, float, complex, str, bytes, type(None), tf.DType, enum.Enum)


def signature(args: object, kwargs: object) -> Hashable:
    """Returns the key that distinguishes the traces of a function.

    The key holds shapes and dtypes of tensors, the values of plain Python values, the identities
    of functions, layers and models, and the types of all other arguments.
    """
    return tuple((path, _kind(value)) for path, value in _leaves((args, kwargs)))


def _kind(value: Any) -> Hashable:
    if isinstance(value, tf.Tensor):
        return value.dtype.name, tuple(value.shape.as_list())
    name = type(value).__name__
    if isinstance(value, _PLAIN):
        return name, repr(value)  # A NaN equals itself only as text.
    return (name, Identity(value)) if callable(value) else name


def _leaves(structure: Any) -> list[tuple[str, Any]]:
    """Returns the flat values of arguments or results, each with a name for errors."""
    return [(f"value {index}", leaf) for index, leaf in enumerate(tf.nest.flatten(structure))]
