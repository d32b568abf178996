"""Runs exported programs in this process.

A program is the folder of a SavedModel that this package exported. `embedded_runtime_start` loads
it; each call gives it one set of inputs and returns the results of one step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from ipu_tf.internals.graphs import is_eager
from ipu_tf.internals.tensorflow import eager_mode
from ipu_tf.serving.descriptions import InputDescription
from ipu_tf.serving.executable import Executable, load_executable

_ARGUMENTS = "XLA_Args/"
"""The vendor's names of inputs of a start begin with it."""


class EmbeddedRuntimeError(Exception):
    """Inputs do not fit an exported program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The inputs and outputs of an exported program.

    Attributes:
        start_inputs: The inputs of its start.
        streamed_inputs: The inputs of a call.
        streamed_outputs: Shapes and dtypes of the results of a call.
    """

    start_inputs: tuple[InputDescription, ...]
    streamed_inputs: tuple[InputDescription, ...]
    streamed_outputs: tuple[InputDescription, ...]


class RuntimeContext:
    """A started program; `embedded_runtime_start` makes it.

    Args:
        name: Name of the program.
        executable_file: The file or folder that it was loaded from.
        executable_proto: The loaded program.
        start_output: The results of its start.
    """

    def __init__(
        self,
        name: str,
        executable_file: str | os.PathLike[str],
        executable_proto: Executable,
        start_output: tf.Tensor,
    ) -> None:
        self._name = name
        self._start_output = start_output
        self.executable_file = executable_file
        self.executable_proto = executable_proto

    def start_output(self) -> tf.Tensor:
        """Returns the results of the start."""
        return self._start_output

    def name(self) -> str:
        """Returns the name of the program."""
        return self._name

    def signature(self) -> Signature:
        """Returns the inputs and outputs of the program."""
        program = self.executable_proto
        return Signature(
            start_inputs=program.start_inputs,
            streamed_inputs=program.inputs,
            streamed_outputs=program.outputs,
        )

    def output_types(self) -> list[tf.DType]:
        """Returns the dtype of each result of a call."""
        return [output.dtype for output in self.executable_proto.outputs]


def embedded_runtime_start(
    executable_file: str | bytes | os.PathLike[str] | tf.Tensor,
    inputs: Sequence[tf.Tensor],
    name: str,
    timeout: int | None = None,
) -> RuntimeContext:
    """Loads an exported program and starts it.

    Args:
        executable_file: The program: the folder of an exported SavedModel, or a file that
            `experimental_application_compile_op` wrote.
        inputs: Values of the inputs of the start, a list in their order or a dict by name. Names
            may begin with "XLA_Args/", as the vendor's do.
        name: Name of the program.
        timeout: Microseconds that the device waits for inputs; accepted without effect.

    Returns:
        The started program, for `embedded_runtime_call`.

    Raises:
        EmbeddedRuntimeError: The inputs do not fit the program.
        ValueError: There is no exported program.
    """
    del timeout
    path = _path(executable_file)
    with eager_mode():  # In a graph of TensorFlow 1, too, the program is started at once.
        return _start(path, inputs, name)


def _start(path: str | os.PathLike[str], inputs: Any, name: str) -> RuntimeContext:
    """Returns a started program."""
    executable = load_executable(path, name)
    values = _in_order(inputs, executable.start_inputs, name)
    _check_count(values, executable.start_inputs, name, "its start")
    tensors = [
        _checked(value, expected, name, EmbeddedRuntimeError)
        for value, expected in zip(values, executable.start_inputs, strict=True)
    ]
    output = executable.start(tensors)
    return RuntimeContext(name, path, executable, output)


def embedded_runtime_call(inputs: Sequence[tf.Tensor], context: RuntimeContext) -> list[tf.Tensor]:
    """Runs a step of a started program.

    Args:
        inputs: The inputs of a step, in their order: tensors or arrays.
        context: The started program.

    Returns:
        The results of the step.

    Raises:
        EmbeddedRuntimeError: The number or a shape of the inputs does not fit the program.
        TypeError: The dtype of an input does not fit.
    """
    expected = context.executable_proto.inputs
    values = _as_list(inputs, context.name(), "a call")
    _check_count(values, expected, context.name(), "a call")
    tensors = [
        _checked(value, description, context.name(), TypeError)
        for value, description in zip(values, expected, strict=True)
    ]
    return context.executable_proto.call(tensors)


def embedded_runtime_start_and_call(
    executable_file: str | bytes | os.PathLike[str] | tf.Tensor,
    startup_inputs: Sequence[tf.Tensor],
    call_inputs: Sequence[tf.Tensor],
    name: str,
) -> list[tf.Tensor]:
    """Starts an exported program and runs a step of it; see the functions of each.

    Args:
        executable_file: The program.
        startup_inputs: The inputs of its start.
        call_inputs: The inputs of the step.
        name: Name of the program.
    """
    return embedded_runtime_call(
        call_inputs, embedded_runtime_start(executable_file, startup_inputs, name)
    )


def embedded_runtime_stop(context: RuntimeContext) -> NoReturn:
    """Always raises: a program ends with the last reference to its context.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        f"Program '{context.name()}' cannot be stopped: it ends with the last reference to its "
        "context. Delete the context."
    )


def _path(place: Any) -> str | os.PathLike[str]:
    """Returns a path that may be what the compile op returns: a string tensor, or its value."""
    if isinstance(place, bytes):
        return os.fsdecode(place)
    if not isinstance(place, tf.Tensor):
        path: str | os.PathLike[str] = place
        return path
    value = tf.get_static_value(place)
    if value is None:
        raise ValueError(
            "The path of the executable has to be known when it is started. Pass a string, such as "
            "the value of the path that a session has run. "
            f"Received: {place!r}."
        )
    return str(np.asarray(value).item().decode())


def _in_order(inputs: Any, expected: Sequence[InputDescription], program: str) -> list[Any]:
    if not isinstance(inputs, Mapping):
        return _as_list(inputs, program, "its start")
    names = [description.name for description in expected]
    inputs = {name.removeprefix(_ARGUMENTS): value for name, value in inputs.items()}
    if set(inputs) != set(names):
        raise EmbeddedRuntimeError(
            f"Program '{program}' takes the inputs {names} at its start. Received: {list(inputs)}."
        )
    return [inputs[name] for name in names]


def _as_list(inputs: Any, program: str, when: str) -> list[Any]:
    """Returns the inputs as a list.

    Raises:
        EmbeddedRuntimeError: They are something else, such as a single tensor.
    """
    if not isinstance(inputs, list | tuple):
        raise EmbeddedRuntimeError(
            f"Program '{program}' takes a list of inputs at {when}. Received: {inputs!r}."
        )
    return list(inputs)


def _check_count(
    values: Sequence[Any], expected: Sequence[InputDescription], program: str, when: str
) -> None:
    if len(values) != len(expected):
        raise EmbeddedRuntimeError(
            f"Program '{program}' takes {len(expected)} inputs at {when}: "
            f"{', '.join(map(str, expected)) or 'none'}. Received: {len(values)} inputs."
        )


def _checked(
    value: Any, expected: InputDescription, program: str, wrong_dtype: type[Exception]
) -> tf.Tensor:
    """Returns an input as a tensor; Python numbers take the dtype of the input."""
    if tf.executing_eagerly() and isinstance(value, tf.Tensor) and not is_eager(value):
        raise EmbeddedRuntimeError(
            f"Input '{expected.name}' of program '{program}' has to be known when the program is "
            f"started. Pass an array. Received: {value!r}."
        )
    has_dtype = hasattr(value, "dtype")
    tensor = tf.convert_to_tensor(value, dtype=None if has_dtype else expected.dtype)
    text = f"Received: {tensor.dtype.name} of shape {tensor.shape}."
    if tensor.dtype != expected.dtype:
        raise wrong_dtype(
            f"Input '{expected.name}' of program '{program}' has dtype {expected.dtype.name}: "
            f"tf.cast it. {text}"
        )
    if not tensor.shape.is_compatible_with(expected.shape):
        raise EmbeddedRuntimeError(
            f"Input '{expected.name}' of program '{program}' has shape {expected.shape}. {text}"
        )
    return tensor
