"""Programs of TensorFlow 1 graphs as functions of eager tensors, for the files that hold them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf import config
from ipu_tf.internals.graphs import call_flat, is_eager, trace, variable_spec, without_strategy
from ipu_tf.programs.program import Program
from ipu_tf.runtime.execution import boundary
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.runtime.tracing.variable_record import VariableRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProgram:
    """A program that was traced in a graph of TensorFlow 1.

    Attributes:
        function: The traced function. Its captured inputs are tensors of the graph.
        handles: The variables of the graph that it uses.
        name: Name of the program.
    """

    function: tf.types.experimental.GenericFunction
    handles: tuple[tf.Tensor, ...]
    name: str

    def values(self) -> list[tf.Tensor]:
        """Returns the values of the variables, tensors of the graph that is being built."""
        specs = [variable_spec(handle) for handle in self.handles]
        return [
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=spec.dtype)
            for handle, spec in zip(self.handles, specs, strict=True)
        ]

    def eager(
        self, values: Sequence[tf.Tensor] | None
    ) -> tuple[Callable[..., object], list[tf.Variable]]:
        """Returns the program as a function with variables of its own, and the variables.

        Args:
            values: Values of the variables; None for zeros.
        """
        variables = [
            _variable(handle, None if values is None else values[number])
            for number, handle in enumerate(self.handles)
        ]
        own = {id(handle): one for handle, one in zip(self.handles, variables, strict=True)}

        def program(*inputs: tf.Tensor) -> Any:
            captured = [
                own[id(tensor)].handle if id(tensor) in own else _static(tensor)
                for tensor in self.function.captured_inputs
            ]
            return call_flat(self.function, [*inputs, *captured])

        program.__name__ = self.name
        return program, variables


def traced_in_graph(
    func: Callable[..., object], inputs: Sequence[tf.TensorSpec | tf.Tensor], name: str
) -> GraphProgram:
    """Returns a program that is traced in the graph of TensorFlow 1 that is being built.

    Variables that it makes are those of the graph.

    Args:
        func: The program.
        inputs: Its arguments: specs of what a call gives, or constants.
        name: Its name.

    Raises:
        ValueError: It reads a tensor of the graph that is no input, variable or constant.
    """
    variables = VariableRecord()
    specs = [one for one in inputs if isinstance(one, tf.TensorSpec)]

    def traced(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        values = iter(tensors)
        arguments = [
            next(values)
            if isinstance(one, tf.TensorSpec)
            else tf.constant(tf.get_static_value(one))
            for one in inputs
        ]
        scope = tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), use_resource=True)
        program = Program(name=name, steps_per_execution=1)
        variables.begin_trace()
        with hooks.tracing(Tracer(program, config.device_configuration())), scope:
            with without_strategy():  # A graph of TensorFlow 1 has no strategy.
                results = boundary.without_operations(func(*arguments))
            return [
                tf.convert_to_tensor(one) for one in tf.nest.flatten(results) if one is not None
            ]

    with contextlib.ExitStack() as stack:
        # Entered, also the graph that a program has by default is known inside of the function.
        stack.enter_context(tf.compat.v1.get_default_graph().as_default())
        stack.enter_context(tf.device(None))
        stack.enter_context(tf.variable_creator_scope(variables.create))
        function = trace(traced, (specs,), name=name)
    captured = function.captured_inputs
    for tensor in captured:
        if tensor.dtype != tf.resource:
            _static(tensor)
    handles = [one for one in captured if one.dtype == tf.resource and not is_eager(one)]
    return GraphProgram(function=function, handles=tuple(handles), name=name)


def _variable(handle: tf.Tensor, value: Any) -> tf.Variable:
    """Returns an eager variable in place of one of a graph."""
    spec = variable_spec(handle)
    return tf.Variable(
        tf.zeros(spec.shape, spec.dtype) if value is None else value, name=handle.op.name
    )


def _static(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor as an eager one.

    Raises:
        ValueError: It has no value before a session runs.
    """
    if is_eager(tensor):
        return tensor
    value = tf.get_static_value(tensor)
    if value is None:
        raise ValueError(
            "experimental_application_compile_op: the program reads a tensor of the graph around "
            "it, whose value is not known before a session runs. Pass it as one of the `inputs`. "
            f"Received: {tensor!r}."
        )
    return tf.constant(value)
