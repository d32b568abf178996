"""Makes variables whose values are not needed: their memory is mapped and never touched.

An operating system gives pages to a process when it first writes to them, so a model whose
variables are never written uses only address space. But TensorFlow's allocator refuses sizes
larger than the host's memory, so the pages do not come from it.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.internals.keras import spec_of_initial_value

_NO_RESERVE = 0x4000
"""MAP_NORESERVE of Linux: the pages may be more than the host has. `mmap` names it from Python 3.13
on."""

_SMALL_BYTES = 64 * 1024
"""Below this a variable is initialised as usual: counters, rates and seeds may be read."""


@contextlib.contextmanager
def placeholder_variables() -> Iterator[None]:
    """Leaves the large variables that are made inside without a value.

    Their initialisers give shape and type and do not run. Functions that use such variables may
    be traced; their results are meaningless.
    """
    with tf.variable_creator_scope(_create):
        yield


def _create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    initial_value = kwargs.get("initial_value")
    if callable(initial_value) and not isinstance(initial_value, _ZeroPages):
        spec = _spec(initial_value, kwargs.get("shape"), kwargs.get("dtype"))
        if spec.shape.is_fully_defined() and spec.shape.num_elements() * spec.dtype.size > (
            _SMALL_BYTES
        ):
            kwargs["initial_value"] = _ZeroPages(spec)
    return next_creator(**kwargs)


def _spec(initial_value: Callable[[], Any], shape: Any, dtype: Any) -> tf.TensorSpec:
    """Returns shape and type of an initialiser's result, without running it.

    It is not traced if both are known: those of tf_keras warn when they are called twice.
    """
    if shape is not None and dtype is not None:
        return tf.TensorSpec(shape, dtype)
    spec = spec_of_initial_value(initial_value)
    if spec is not None:
        return spec
    with tf.Graph().as_default():
        value = tf.convert_to_tensor(initial_value(), dtype=dtype)
        return tf.TensorSpec(value.shape, value.dtype)


class _ZeroPages:
    """An initialiser whose values are not needed."""

    def __init__(self, spec: tf.TensorSpec) -> None:
        self._spec = spec

    def __call__(self) -> tf.Tensor:
        """Returns a tensor of zeros on untouched pages."""
        return _zeros_without_memory(self._spec)


def _zeros_without_memory(spec: tf.TensorSpec) -> tf.Tensor:
    """Returns a tensor of zeros on untouched pages."""
    dtype = np.dtype(spec.dtype.as_numpy_dtype)
    # NumPy exchanges only its own types, not added ones such as bfloat16.
    exchange_dtype = np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype
    shape = tuple(spec.shape)
    pages = mmap.mmap(
        -1,
        math.prod(shape) * dtype.itemsize,
        flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE,
    )
    array = np.frombuffer(pages, exchange_dtype).reshape(shape)
    tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tensor if exchange_dtype == dtype else tf.bitcast(tensor, spec.dtype)
