"""Inserts the active tracer before op creation and function calls.

TensorFlow has no public hook there, so its op creation, its calls of concrete functions, its keys
of traces, its signatures and its choice of optionals are replaced while any thread traces; on the
threads that do not, the replacements only call through.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.base import call_path
from ipu_tf.internals import patches
from ipu_tf.internals.graphs import forward_graph, resource_input_of
from ipu_tf.internals.tensorflow import (
    XLA_MUST_COMPILE,
    ConcreteFunction,
    FuncGraph,
    InternalCastContext,
    VariableWatcher,
    function_type_utils,
    gradient_registry,
    override_func_graph_name_scope,
)
from ipu_tf.ops.kernels import library, replica_context
from ipu_tf.runtime.tracing import call_order, function_calls, gradient_overrides, retracing
from ipu_tf.runtime.tracing.call_ops import CALLS
from ipu_tf.runtime.tracing.tracer import Tracer

_SCRATCH_GRAPH = "scratch_graph"
"""Keras infers shapes in graphs with this in their names and throws them away; their shapes are not
static."""

_thread = threading.local()


def active() -> Tracer | None:
    """Returns the tracer of this thread, None outside a trace."""
    return getattr(_thread, "tracer", None)


@contextlib.contextmanager
def tracing(tracer: Tracer) -> Iterator[Tracer]:
    """Makes `tracer` create the ops of every function graph that this thread builds."""
    library.load()
    with patches.installed(_REPLACEMENTS):
        previous, _thread.tracer = active(), tracer
        try:
            with VariableWatcher() as watcher, scopes.within(tracer):
                yield tracer
            tracer.note_trainable(watcher.watched_variables())
        finally:
            _thread.tracer = previous


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Says that what this thread traces inside makes variables, and never runs."""
    around, _thread.building = getattr(_thread, "building", False), True
    try:
        yield
    finally:
        _thread.building = around


def is_scratch(graph: FuncGraph | None) -> bool:
    """Returns whether Keras infers shapes or makes variables in a graph: nothing in it runs."""
    if getattr(_thread, "building", False):
        return True
    while isinstance(graph, FuncGraph):
        if _SCRATCH_GRAPH in graph.name:
            return True
        graph = graph.outer_graph
    return False


def _optionals(stock: Callable[[], bool]) -> Callable[[], bool]:
    """Makes gradients of conditionals take the branches' values without wrapping them.

    TensorFlow wraps them in optionals, so that the branch not taken returns nothing. XLA and the
    machine have no optionals: there that branch returns a tensor that is never read.
    TensorFlow's own switch for this holds for all threads.
    """

    def enabled() -> bool:
        return active() is None and stock()

    return enabled


def _branch_captures(stock: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Makes gradients of conditionals without optionals capture handles in a form that XLA accepts.

    A branch cannot return a handle, such as that of a loop in it; so the branch's input is used.
    TensorFlow lets the gradient of a branch capture tensors of the branch and of the graph around
    the gradient; so that graph captures those from further away, such as the replica, first.
    """

    def capture(graph: Any, tensor: tf.Tensor, name: str) -> tf.Tensor:
        if active() is not None:
            forward, outer = forward_graph(graph), graph.outer_graph
            if tensor.graph is forward:
                if tensor.dtype == tf.resource:
                    tensor = resource_input_of(tensor, forward)
            elif tensor.graph is not outer and isinstance(outer, FuncGraph):
                tensor = outer.capture(tensor)
        return stock(graph, tensor, name)

    return capture


def _trace_keys(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the tracer and the Keras layer part of tf.function's key for cached traces.

    So a nested tf.function is traced once more for every tracer; its stock traces stay as they are.
    Reports find layers by the names of ops, so each calling layer has its own trace.
    """

    def make_function_context(*args: Any, **kwargs: Any) -> Any:
        key = stock(*args, **kwargs)
        tracer = active()
        if tracer is None:
            return key
        return key._replace(context=(key.context, tracer, call_path.current().path))

    return make_function_context


def _signatures(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the tracer trace nested functions for the shapes of their calls.

    An `input_signature` may leave sizes open, as in loaded SavedModels, and `reduce_retracing`
    opens them: on the machine they are static.
    """

    def trace_function(args: Any = None, kwargs: Any = None, tracing_options: Any = None) -> Any:
        if active() is not None and tracing_options is not None:
            if args or kwargs:
                args, kwargs, tracing_options = _call_arguments(
                    args or (), kwargs or {}, tracing_options
                )
            if replica_context.is_replicated():
                tracing_options = _without_jit(tracing_options)
        return stock(args, kwargs, tracing_options)

    return trace_function


def _without_jit(options: Any) -> Any:
    """Returns options to trace a function with that XLA does not compile on its own."""
    attributes = {
        name: value
        for name, value in (options.attributes or {}).items()
        if name != XLA_MUST_COMPILE
    }
    return dataclasses.replace(options, attributes=attributes)


def _jitted_contexts(stock: Callable[..., None]) -> Callable[..., None]:
    """Makes functions with `jit_compile=True` a part of the program that replicas run.

    A function that XLA compiles on its own could not wait for other replicas.
    """

    def enter(context: Any) -> None:
        if active() is not None and replica_context.is_replicated():
            context.xla_context = None
        stock(context)

    return enter


def _call_arguments(args: Any, kwargs: Any, options: Any) -> tuple[Any, Any, Any]:
    """Returns arguments and options to trace a function with, without a signature's shapes.

    The signature's types still hold: arguments are cast to them.
    """
    options = dataclasses.replace(options, reduce_retracing=False)
    if options.input_signature is None:
        return args, kwargs, options
    signature = options.polymorphic_type
    bound = function_type_utils.canonicalize_function_inputs(
        args, kwargs, signature, options.default_values, options.is_pure
    )
    parameters = []
    for name, parameter in signature.parameters.items():
        if parameter.type_constraint is not None and name in bound.arguments:
            value = bound.arguments[name]
            bound.arguments[name] = parameter.type_constraint.cast(value, InternalCastContext())
        parameters.append(type(parameter)(name, parameter.kind, parameter.optional, None))
    unsigned = dataclasses.replace(options, polymorphic_type=type(signature)(parameters))
    return bound.args, bound.kwargs, unsigned


def _concrete_calls(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the tracer copy finished functions where they are called."""

    def call_flat(function: ConcreteFunction, tensor_inputs: Any, captured_inputs: Any) -> Any:
        tracer = active()
        if tracer is not None and tf.inside_function():
            arguments = [*tensor_inputs, *captured_inputs]
            function = retracing.concrete_twin(tracer, function, arguments)
        return stock(function, tensor_inputs, captured_inputs)

    return call_flat


def _name_scopes(stock: Callable[..., None]) -> Callable[..., None]:
    """Gives the ops of functions that layers call the layer's name scope, as loops do.

    Their gradients keep the scope; nothing else connects them with a layer.
    """

    def init(graph: FuncGraph, *args: Any, **kwargs: Any) -> None:
        stock(graph, *args, **kwargs)
        if active() is not None and call_path.current().path and not is_scratch(graph):
            override_func_graph_name_scope(graph, graph.outer_graph.get_name_scope())

    return init


def _gradient_lookup(stock: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Makes ops in a trace use the gradients of `gradient_overrides`."""

    def lookup(registry: Any, name: str) -> Any:
        gradient = stock(registry, name)
        own = gradient_overrides.GRADIENTS.get(name)
        if own is not None and registry is gradient_registry and active() is not None:
            return functools.partial(own, gradient)
        return gradient

    return lookup


def _finite_gradients(stock: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Notes the gradients whose overflow loss scaling handles."""

    def check_finite(optimizer: Any, grads: Any) -> Any:
        tracer = active()
        if tracer is not None:
            tracer.note_loss_scale(optimizer.dynamic_scale, grads)
            tracer.checks_scaled = True
        return stock(optimizer, grads)

    return check_finite


def _scaled_losses(stock: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Notes the scale of a loss whose gradients are checked, here or in another program."""

    def scale_loss(optimizer: Any, loss: Any) -> Any:
        tracer = active()
        if tracer is not None and optimizer.built:
            tracer.note_loss_scale(optimizer.dynamic_scale)
            tracer.checks_scaled = True
        return stock(optimizer, loss)

    return scale_loss


def _op_creation(stock: Any) -> Callable[..., tf.Operation]:
    """Makes the tracer create the ops of function graphs."""

    def create_op(
        graph: FuncGraph,
        op_type: str,
        inputs: Sequence[tf.Tensor],
        dtypes: Any = None,
        input_types: Any = None,
        name: str | None = None,
        attrs: Any = None,
        op_def: Any = None,
        compute_device: bool = True,
    ) -> tf.Operation:
        kwargs = {
            "dtypes": dtypes,
            "input_types": input_types,
            "name": name,
            "op_def": op_def,
            "compute_device": compute_device,
        }
        tracer = active()
        if tracer is None or is_scratch(graph):
            return stock(graph, op_type, inputs, attrs=attrs, **kwargs)
        if op_type in CALLS:
            attrs = function_calls.prepare(tracer, graph, op_type, inputs, attrs or {})
        with call_order.in_order(graph, op_type):
            op = tracer.create_op(stock.__get__(graph), graph, op_type, inputs, attrs, **kwargs)
        call_order.note(op)
        return op

    return create_op


_REPLACEMENTS: Mapping[patches.Patch, patches.Wrap] = MappingProxyType(
    {
        patches.OP_CREATION: _op_creation,
        patches.NAME_SCOPES: _name_scopes,
        patches.CONCRETE_CALLS: _concrete_calls,
        patches.TRACE_KEYS: _trace_keys,
        patches.SIGNATURES: _signatures,
        patches.JITTED_CONTEXTS: _jitted_contexts,
        patches.OPTIONALS: _optionals,
        patches.BRANCH_CAPTURES: _branch_captures,
        patches.GRADIENT_LOOKUP: _gradient_lookup,
        patches.SCALED_LOSSES: _scaled_losses,
        patches.FINITE_GRADIENTS: _finite_gradients,
    }
)
"""The replacements that a trace installs."""
