"""Converts 64-bit data to 32-bit data if the values fit: the IPU has no 64-bit types."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ipu_tf.internals.structures import TensorLike

NARROWER = {"float64": "float32", "int64": "int32", "uint64": "int32"}
SUPPORTED = frozenset(
    (
        "float32",
        "float16",
        "bfloat16",
        "int32",
        "uint32",
        "int16",
        "uint16",
        "int8",
        "uint8",
        "bool",
    )
)


def dtype_name(array: TensorLike) -> str:
    """Returns the name of the element type of an array, a tensor or a spec."""
    dtype = array.dtype
    return str(getattr(dtype, "name", dtype))


def check_supported(name: str, dtype: str, *, model: str) -> None:
    """Raises an error for element types that cannot be brought to the IPU at all.

    Args:
        name: The input, such as "x['image']".
        dtype: Name of its element type.
        model: Name of the model.

    Raises:
        ValueError: The type is neither one of the IPU's nor in `NARROWER`.
    """
    if dtype not in SUPPORTED and dtype not in NARROWER:
        raise ValueError(
            f"Model '{model}': input {name} has elements of type {dtype}, which the IPU does not "
            "have. Turn them into numbers of at most 32 bits on the host, for example in "
            "`Dataset.map`."
        )


def narrow_array(name: str, array: TensorLike, *, model: str) -> TensorLike:
    """Returns `array` with elements of at most 32 bits.

    Args:
        name: The input, such as "y".
        array: A NumPy array, a tensor, or anything with `shape`, `dtype` and `astype`.
        model: Name of the model.

    Raises:
        ValueError: A value does not fit.
    """
    target = NARROWER.get(dtype_name(array))
    if target is None:
        return array
    values = np.asarray(array)
    if target == "int32":
        limits = np.iinfo(np.int32)
        if values.size and (values.min() < limits.min or values.max() > limits.max):
            raise ValueError(
                _does_not_fit(name, dtype_name(array), target, model)
                + f" Received: values from {values.min()} to {values.max()}."
            )
        narrow = values.astype(target)
    else:
        with np.errstate(over="ignore"):
            narrow = values.astype(target)
        if not np.array_equal(np.isfinite(narrow), np.isfinite(values)):
            raise ValueError(
                _does_not_fit(name, dtype_name(array), target, model)
                + f" Received: a value of magnitude {np.abs(values[np.isfinite(values)]).max()}."
            )
    if tf.is_tensor(array):
        return tf.convert_to_tensor(narrow)
    if isinstance(array, np.ndarray):
        return narrow
    return array.astype(target)  # A table column stays one: Keras adds a second axis.


def narrow_tensor(name: str, tensor: tf.Tensor, *, model: str) -> tf.Tensor:
    """Returns the cast of a tensor inside a dataset, with a check that every value fits.

    Args:
        name: The input, such as "y".
        tensor: A batch of it.
        model: Name of the model.
    """
    target = NARROWER.get(tensor.dtype.name)
    if target is None:
        return tensor
    narrow = tf.cast(tensor, target)
    if tensor.dtype.is_integer:
        fits = tf.reduce_all(tf.equal(tf.cast(narrow, tensor.dtype), tensor))
        if tensor.dtype.is_unsigned:
            fits = tf.logical_and(fits, tf.reduce_all(narrow >= 0))
    else:
        fits = tf.reduce_all(tf.equal(tf.math.is_finite(narrow), tf.math.is_finite(tensor)))
    message = _does_not_fit(name, tensor.dtype.name, target, model)
    with tf.control_dependencies([tf.debugging.Assert(fits, [message])]):
        return tf.identity(narrow)


def _does_not_fit(name: str, dtype: str, target: str, model: str) -> str:
    return (
        f"Model '{model}': input {name} is {dtype} and has values that do not fit into {target}, "
        "the widest such type of the IPU. Scale or re-index the data to the range of that type."
    )
