"""Operations of the user: expressions of elements, and functions of libraries that the host runs.

A library is C++ built with g++; its functions take `std::vector` and `std::string` by reference.
This module passes them as g++'s standard library lays them out in memory.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure

__all__ = ["codelet_expression_op", "cpu_user_operation"]


@tf.autograph.experimental.do_not_convert
def codelet_expression_op(vertex_expression: Callable[..., object], *args: tf.Tensor) -> tf.Tensor:
    """Returns an expression of the elements of tensors, which are broadcast to one shape.

    It has no gradient: taking one raises a `LookupError`, as the machine's operation does.

    Args:
        vertex_expression: The expression, a function of as many arguments as there are tensors.
        *args: The tensors.

    Returns:
        A tensor of the dtype of the first tensor.

    Raises:
        ValueError: There is no tensor.
    """
    if not args:
        raise ValueError("codelet_expression_op: pass the tensors of the expression.")
    tensors = [tf.convert_to_tensor(value) for value in args]
    result = tf.cast(vertex_expression(*tensors), tensors[0].dtype)
    return tf.raw_ops.PreventGradient(
        input=result,
        message="codelet_expression_op has no gradient. Write the expression with TensorFlow ops.",
    )


@tf.autograph.experimental.do_not_convert
def cpu_user_operation(
    inputs: Sequence[tf.Tensor],
    library_path: str,
    outs: Mapping[str, Sequence[object]] | None = None,
    name: str = "UserOp",
    op_name: str = "Callback",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> TensorStructure:
    """Returns the outputs of a C++ function that the host calls with the inputs.

    The function is `extern "C" void NAME(const std::vector<const void*>& data, const
    std::vector<std::uint32_t>& number_of_elements, const std::vector<void*>& outputs, const
    std::string& attributes, const std::string& name)`, and its gradient is `NAME_grad`, with the
    same parameters. The data of the gradient are the gradients of the outputs, then the outputs,
    then the inputs; its outputs are the gradients of the inputs.

    Args:
        inputs: Tensors.
        library_path: Path of the shared library.
        outs: "output_types" and "output_shapes" of the outputs, lists; None for no outputs.
        name: Name of the operation.
        op_name: Name of the function.
        separate_gradients: Whether the gradient is called once for each input.
        inputs_with_gradients: Numbers of the inputs that have a gradient; all of them if None.
        attributes: Text that the function receives.
        gradient_attributes: Text that the gradient receives.

    Returns:
        The list of outputs; the operation where there are none.

    Raises:
        ValueError: The library or the function does not exist, or an argument is out of its range.
    """
    for argument, text in (
        ("attributes", attributes),
        ("gradient_attributes", gradient_attributes),
    ):
        if text is not None and not isinstance(text, str):
            raise ValueError(
                f"cpu_user_operation '{name}': `{argument}` must be a str. Received: {text!r}."
            )
    tensors = [tf.convert_to_tensor(value) for value in inputs]
    forward = _HostFunction(library_path, op_name, name, attributes or "")
    backward = _HostFunction(library_path, f"{op_name}_grad", name, gradient_attributes or "")
    wanted = _wanted(name, inputs_with_gradients, len(tensors))
    specs = _specs(name, outs)
    forward.check()

    @tf.custom_gradient
    def operation(*tensors: tf.Tensor) -> Any:
        results = forward.outputs(tensors, specs)

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor | None]:
            backward.check()
            data = [*upstream, *results, *tensors]
            sought = [tf.TensorSpec(tensors[index].shape, tensors[index].dtype) for index in wanted]
            groups = [[spec] for spec in sought] if separate_gradients else [sought]
            found = [value for group in groups for value in backward.outputs(data, group)]
            by_input = dict(zip(wanted, found, strict=True))
            return [by_input.get(index) for index in range(len(tensors))]

        return tuple(results), gradient

    if not specs:
        return forward.call(tensors, specs)
    return list(operation(*tensors))


@dataclass(frozen=True, slots=True)
class _HostFunction:
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
        self._loaded()

    def outputs(
        self, tensors: Sequence[tf.Tensor], specs: Sequence[tf.TensorSpec]
    ) -> list[tf.Tensor]:
        """Returns the outputs of a call, of the shapes and dtypes of `specs`."""
        results = tf.nest.flatten(self.call(tensors, specs))
        for result, spec in zip(results, specs, strict=True):
            result.set_shape(spec.shape)
        return results

    def call(self, tensors: Sequence[tf.Tensor], specs: Sequence[tf.TensorSpec]) -> Any:
        """Calls the function on the host."""

        def on_host(*data: np.ndarray) -> list[np.ndarray]:
            return self._called([np.ascontiguousarray(each) for each in data], specs)

        types = [spec.dtype for spec in specs]
        return tf.numpy_function(on_host, list(tensors), types, name=self.operation)

    def _called(
        self, data: Sequence[np.ndarray], specs: Sequence[tf.TensorSpec]
    ) -> list[np.ndarray]:
        outputs = [np.empty(tuple(spec.shape), spec.dtype.as_numpy_dtype) for spec in specs]
        pointers = (ctypes.c_void_p * len(data))(*(each.ctypes.data for each in data))
        targets = (ctypes.c_void_p * len(outputs))(*(each.ctypes.data for each in outputs))
        sizes = (ctypes.c_uint32 * len(data))(*(each.size for each in data))
        arguments = [_vector(pointers), _vector(sizes), _vector(targets)]
        texts = [_string(self.attributes), _string(self.operation)]
        self._loaded()(*map(ctypes.byref, (*arguments, *texts)))
        return outputs

    def _loaded(self) -> Any:
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


def _wanted(operation: str, numbers: Sequence[int] | None, inputs: int) -> list[int]:
    """Returns the numbers of the inputs that have a gradient."""
    if numbers is None:
        return list(range(inputs))
    if any(number not in range(inputs) for number in numbers):
        raise ValueError(
            f"cpu_user_operation '{operation}': `inputs_with_gradients` must be numbers of the "
            f"{inputs} inputs. Received: {list(numbers)}."
        )
    return list(numbers)


def _specs(operation: str, outs: Mapping[str, Sequence[Any]] | None) -> list[tf.TensorSpec]:
    """Returns shapes and dtypes of the outputs."""
    if outs is None:
        return []
    try:
        pairs = zip(outs["output_shapes"], outs["output_types"], strict=True)
        specs = [tf.TensorSpec(shape, dtype) for shape, dtype in pairs]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"cpu_user_operation '{operation}': `outs` must have lists of equal length, "
            f"`output_types` and `output_shapes`. Received: {outs!r}."
        ) from error
    for spec in specs:
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"cpu_user_operation '{operation}': outputs must have static shapes. "
                f"Received: {spec.shape}."
            )
    return specs
