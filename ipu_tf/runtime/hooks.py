"""Puts the active tracer before op creation and function calls.

TensorFlow has no public hook there, so its op creation, its calls of concrete functions and its
keys of traces are wrapped, once a process; on threads that are not tracing the wrappers only call
through.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf._private import ConcreteFunction, FuncGraph, VariableWatcher, function_context
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


def _hook_trace_keys() -> None:
    """Makes the tracer part of the key under which tf.function caches its traces.

    A nested tf.function is so traced once more for every tracer; its stock traces stay as they are.
    """
    stock = function_context.make_function_context

    def make_function_context(*args: Any, **kwargs: Any) -> Any:
        key = stock(*args, **kwargs)
        tracer = active()
        if tracer is None:
            return key
        return key._replace(context=(key.context, tracer))

    function_context.make_function_context = make_function_context


def _hook_concrete_functions() -> None:
    stock = ConcreteFunction._call_flat

    def call_flat(self: ConcreteFunction, tensor_inputs: Any, captured_inputs: Any) -> Any:
        tracer = active()
        if tracer is not None and tf.inside_function():
            self = foreign.concrete_twin(tracer, self, [*tensor_inputs, *captured_inputs])
        return stock(self, tensor_inputs, captured_inputs)

    ConcreteFunction._call_flat = call_flat


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
