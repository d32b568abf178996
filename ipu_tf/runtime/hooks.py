"""Puts the active tracer before op creation and function calls.

TensorFlow has no public hook there, so its op creation, its calls of concrete functions, its keys
of traces, its signatures and its choice of optionals are wrapped, once a process; on threads that
are not tracing the wrappers only call through.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf._private import (
    ConcreteFunction,
    FuncGraph,
    InternalCastContext,
    VariableWatcher,
    cond_v2,
    eager_context_module,
    function_context,
    function_type_utils,
    gradient_registry,
    keras_layer_path,
    override_func_graph_name_scope,
    tracing_compilation,
)
from ipu_tf.ops import library
from ipu_tf.runtime import called_functions, retracing
from ipu_tf.runtime.call_ops import CALLS
from ipu_tf.runtime.tracer import Tracer

_SCRATCH_GRAPH = "scratch_graph"
"""Keras infers shapes in graphs of this name and throws them away; their shapes are not static."""

_thread = threading.local()


def active() -> Tracer | None:
    """Returns the tracer of this thread, None outside of a trace."""
    return getattr(_thread, "tracer", None)


@contextlib.contextmanager
def tracing(tracer: Tracer) -> Iterator[Tracer]:
    """Makes `tracer` create the ops of every function graph that this thread builds."""
    _install()
    previous, _thread.tracer = active(), tracer
    try:
        with VariableWatcher() as watcher:
            yield tracer
        tracer.note_trainable(watcher.watched_variables())
    finally:
        _thread.tracer = previous


def _is_scratch(graph: FuncGraph | None) -> bool:
    while isinstance(graph, FuncGraph):
        if graph.name.startswith(_SCRATCH_GRAPH):
            return True
        graph = graph.outer_graph
    return False


@functools.cache
def _install() -> None:
    library.load()
    _hook_op_creation()
    _hook_concrete_functions()
    _hook_trace_keys()
    _hook_signatures()
    _hook_optionals()
    _hook_name_scopes()
    _hook_slice_gradients()


def _hook_optionals() -> None:
    """Makes gradients of conditionals take what the branches computed as it is.

    TensorFlow wraps it in optionals, so that the branch that was not taken gives nothing; XLA, and
    the machine, have no optionals: there that branch gives a tensor that nobody reads.
    TensorFlow's own switch for this holds for all threads.
    """
    stock = eager_context_module.optionals_in_gradients_enabled

    def enabled() -> bool:
        return active() is None and stock()

    eager_context_module.optionals_in_gradients_enabled = enabled
    gradient_graph = cond_v2._CondGradFuncGraph
    stock_capture = gradient_graph._capture_helper

    def capture(self: Any, tensor: tf.Tensor, name: str) -> tf.Tensor:
        forward = self._forward_graph
        if active() is not None and tensor.graph is forward and tensor.dtype == tf.resource:
            # A branch cannot give out a handle, as one of a loop in it: what it was given does.
            tensor = forward.inputs[_resource_input(tensor, forward)]
        return stock_capture(self, tensor, name)

    gradient_graph._capture_helper = capture


def _resource_input(tensor: tf.Tensor, graph: FuncGraph) -> int:
    """Returns which input of a graph one of its handles is."""
    inputs = [parameter.name for parameter in graph.inputs]
    nodes = {op.name: op.node_def for op in graph.get_operations()}
    return int(cond_v2.util.resource_input_index(tensor.name, inputs, nodes, graph._functions))


def _hook_trace_keys() -> None:
    """Makes the tracer, and the Keras layer, part of the key under which tf.function caches traces.

    A nested tf.function is so traced once more for every tracer; its stock traces stay as they are.
    Reports tell layers by the names of ops, so each layer that calls it has its own.
    """
    stock = function_context.make_function_context

    def make_function_context(*args: Any, **kwargs: Any) -> Any:
        key = stock(*args, **kwargs)
        tracer = active()
        if tracer is None:
            return key
        return key._replace(context=(key.context, tracer, keras_layer_path()))

    function_context.make_function_context = make_function_context


def _hook_signatures() -> None:
    """Makes the tracer trace nested functions for the shapes that they are called with.

    An `input_signature` may leave sizes open, as those of loaded SavedModels do, and
    `reduce_retracing` opens them: on the machine they are static.
    """
    stock = tracing_compilation.trace_function

    def trace_function(args: Any = None, kwargs: Any = None, tracing_options: Any = None) -> Any:
        if active() is not None and tracing_options is not None and (args or kwargs):
            args, kwargs, tracing_options = _as_called(args or (), kwargs or {}, tracing_options)
        return stock(args, kwargs, tracing_options)

    tracing_compilation.trace_function = trace_function


def _as_called(args: Any, kwargs: Any, options: Any) -> tuple[Any, Any, Any]:
    """Returns arguments and options to trace a function with, without shapes of a signature.

    What the signature says of types still holds: arguments are cast to it.
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


def _hook_concrete_functions() -> None:
    stock = ConcreteFunction._call_flat

    def call_flat(self: ConcreteFunction, tensor_inputs: Any, captured_inputs: Any) -> Any:
        tracer = active()
        if tracer is not None and tf.inside_function():
            self = retracing.concrete_twin(tracer, self, [*tensor_inputs, *captured_inputs])
        return stock(self, tensor_inputs, captured_inputs)

    ConcreteFunction._call_flat = call_flat


def _hook_name_scopes() -> None:
    """Gives the ops of functions that layers call the name scope of the layer, as loops have it.

    Their gradients, which nothing else connects with a layer, carry it on.
    """
    stock = FuncGraph.__init__

    def init(self: FuncGraph, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        if active() is not None and keras_layer_path() and not _is_scratch(self):
            override_func_graph_name_scope(self, self.outer_graph.get_name_scope())

    FuncGraph.__init__ = init


def _hook_slice_gradients() -> None:
    """Makes gradients of slices at places that depend on data what has a static shape.

    TensorFlow pads the gradient by as much as is before and after the slice: then its shape depends
    on data, too, as far as TensorFlow and XLA know.
    """
    entry = gradient_registry._registry["Slice"]
    stock = entry["type"]

    def gradient(op: Any, grad: tf.Tensor) -> Any:
        tensor, begin, _ = op.inputs
        is_known = tensor.shape.is_fully_defined() and op.outputs[0].shape.is_fully_defined()
        if active() is None or not is_known or tf.get_static_value(begin) is not None:
            return stock(op, grad)
        padded = tf.raw_ops.StridedSliceGrad(
            shape=tf.constant(tensor.shape.as_list(), begin.dtype),
            begin=begin,
            end=begin + tf.constant(op.outputs[0].shape.as_list(), begin.dtype),
            strides=tf.ones_like(begin),
            dy=grad,
        )
        return padded, None, None

    entry["type"] = gradient


def _hook_op_creation() -> None:
    stock = FuncGraph._create_op_internal

    def create_op(
        self: FuncGraph,
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
        if tracer is None or _is_scratch(self):
            return stock(self, op_type, inputs, attrs=attrs, **kwargs)
        if op_type in CALLS:
            attrs = called_functions.prepare(tracer, self, op_type, inputs, attrs or {})
        return tracer.create_op(stock.__get__(self), self, op_type, inputs, attrs, **kwargs)

    FuncGraph._create_op_internal = create_op
