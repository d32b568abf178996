"""Puts the active tracer before op creation and function calls.

TensorFlow has no public hook there, so its op creation, its calls of concrete functions, its keys
of traces and its choice of optionals are wrapped, once a process; on threads that are not tracing
the wrappers only call through.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf._private import (
    ConcreteFunction,
    FuncGraph,
    VariableWatcher,
    cond_v2,
    eager_context_module,
    function_context,
    keras_layer_path,
    override_func_graph_name_scope,
)
from ipu_tf.ops import library
from ipu_tf.runtime import foreign
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
    _hook_optionals()
    _hook_name_scopes()


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


def _hook_concrete_functions() -> None:
    stock = ConcreteFunction._call_flat

    def call_flat(self: ConcreteFunction, tensor_inputs: Any, captured_inputs: Any) -> Any:
        tracer = active()
        if tracer is not None and tf.inside_function():
            self = foreign.concrete_twin(tracer, self, [*tensor_inputs, *captured_inputs])
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
        return tracer.create_op(stock.__get__(self), self, op_type, inputs, attrs, **kwargs)

    FuncGraph._create_op_internal = create_op
