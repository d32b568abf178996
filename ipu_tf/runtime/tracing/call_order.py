"""Puts calls of functions with `jit_compile=True` and operations of feeds in the order of the code.

TensorFlow orders operations with side effects in a function, but not those that XLA compiles on
their own among the others.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import tensorflow as tf

from ipu_tf.internals.graphs import has_effects, is_call_of_xla, makes_calls_of_xla
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.runtime.tracing.call_ops import CALLS

_FEEDS = frozenset({"IpuDequeue", "IpuEnqueue", "IpuOutfeedTake"})

_LAST: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""The name of the last operation of each graph that has an order; an operation holds its graph."""


def in_order(graph: tf.Graph, op_type: str) -> contextlib.AbstractContextManager[None]:
    """Makes a new operation of a function wait for a call that XLA compiles, and such a call wait.

    Args:
        graph: The graph that gets the operation.
        op_type: The type of the operation.
    """
    if not _is_ordered(graph, op_type) or graph not in _LAST:
        return contextlib.nullcontext()
    last = graph.get_operation_by_name(_LAST[graph])
    if not (is_call_of_xla(last) or makes_calls_of_xla(graph)):
        return contextlib.nullcontext()
    return graph.control_dependencies([last])


def note(operation: tf.Operation) -> None:
    """Notes that a graph has a new operation."""
    if _is_ordered(operation.graph, operation.type) and has_effects(operation):
        _LAST[operation.graph] = operation.name


def _is_ordered(graph: tf.Graph, op_type: str) -> bool:
    return (op_type in _FEEDS or op_type in CALLS) and isinstance(graph, FuncGraph)
