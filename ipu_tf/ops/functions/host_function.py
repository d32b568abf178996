"""Functions of shared libraries that the host calls with tensors.

A library is C++ built with g++; its functions take `std::vector` and `std::string` by reference.
This module passes them as g++'s standard library lays them out in memory.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A function of a shared library.

    Attributes:
        path: Path of the library.
        symbol: Name of the function.
        operation: Name of the operation, for errors and for the function.
        attributes: Text that the function receives.
    """

    path: str
    symbol: str
    operation: str
    attributes: str

    def check(self) -> None:
        """Raises an error if the library cannot be loaded, or lacks the function."""
        self._function()

    def outputs(
        self, tensors: Sequence[tf.Tensor], specs: Sequence[tf.TensorSpec]
    ) -> list[tf.Tensor]:
        """Returns the outputs of a call, of the shapes and dtypes of `specs`."""
        results = tf.nest.flatten(self.call(tensors, specs))
        for result, spec in zip(results, specs, strict=True):
            result.set_shape(spec.shape)
        return results

    def call(self, tensors: Sequence[tf.Tensor], specs: Sequence[tf.TensorSpec]) -> TensorStructure:
        """Calls the function on the host."""

        def on_host(*data: np.ndarray) -> list[np.ndarray]:
            return self._call([np.ascontiguousarray(each) for each in data], specs)

        types = [spec.dtype for spec in specs]
        return tf.numpy_function(on_host, list(tensors), types, name=self.operation)

    def _call(self, data: Sequence[np.ndarray], specs: Sequence[tf.TensorSpec]) -> list[np.ndarray]:
        outputs = [np.empty(tuple(spec.shape), spec.dtype.as_numpy_dtype) for spec in specs]
        pointers = (ctypes.c_void_p * len(data))(*(each.ctypes.data for each in data))
        targets = (ctypes.c_void_p * len(outputs))(*(each.ctypes.data for each in outputs))
        sizes = (ctypes.c_uint32 * len(data))(*(each.size for each in data))
        arguments = [_vector(pointers), _vector(sizes), _vector(targets)]
        texts = [_string(self.attributes), _string(self.operation)]
        self._function()(*map(ctypes.byref, (*arguments, *texts)))
        return outputs

    def _function(self) -> Any:
        try:
            library = _library(os.path.abspath(self.path))
        except OSError as error:
            raise ValueError(
                f"cpu_user_operation '{self.operation}' cannot load the library of `library_path`: "
                f"{error}. Build it by `g++ -shared -fPIC`, without the vendor's headers. "
                f"Received: library_path={self.path!r}."
            ) from error
        try:
            function = library[self.symbol]
        except AttributeError as error:
            raise ValueError(
                f"cpu_user_operation '{self.operation}': the library {self.path!r} has no function "
                f'`{self.symbol}`. Declare it as extern "C".'
            ) from error
        function.restype = None
        return function


class _Vector(ctypes.Structure):
    """A `std::vector`."""

    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("capacity", ctypes.c_void_p),
    )


class _String(ctypes.Structure):
    """A `std::string`, whose characters are elsewhere."""

    _fields_ = (
        ("characters", ctypes.c_char_p),
        ("length", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("unused", ctypes.c_size_t),
    )


def _vector(items: ctypes.Array) -> _Vector:
    """Returns a vector over an array, which has to outlive it."""
    begin = ctypes.addressof(items)
    end = begin + ctypes.sizeof(items)
    return _Vector(begin, end, end)


def _string(text: str) -> _String:
    characters = text.encode()
    return _String(characters, len(characters), len(characters))


@functools.cache
def _library(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)
