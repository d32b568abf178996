"""Spans of the host timeline for calls that no method of ours sees.

A user's own `tf.function` may run programs, and `tf.train.Checkpoint` writes and reads files. While
a strategy is profiled, their methods are replaced by ones that mark these calls.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ipu_tf.base import spans
from ipu_tf.internals import patches
from ipu_tf.internals.tensorflow import FuncGraph

_Runs = Mapping[str, int]
"""Steps that a call of a function runs, by the name of their program."""

_runs: weakref.WeakKeyDictionary[Any, _Runs] = weakref.WeakKeyDictionary()
_RUNS_OF_GRAPHS: ContextVar[dict[int, collections.Counter[str]] | None] = ContextVar(
    "ipu_tf.traced_runs", default=None
)


@contextlib.contextmanager
def marking_calls() -> Iterator[None]:
    """Marks functions that run programs, and checkpoints, while the context is open."""
    with patches.installed(_REPLACEMENTS):
        yield


def note_run(program: str) -> None:
    """Notes that the function that is being traced runs a step of a program.

    A run in a loop counts no steps: the trace does not say how often it runs.
    """
    runs_of_graphs = _RUNS_OF_GRAPHS.get()
    if runs_of_graphs is None:
        return
    graph = tf.compat.v1.get_default_graph()
    outermost = graph
    while isinstance(outer := getattr(outermost, "outer_graph", None), FuncGraph):
        outermost = outer
    # A function may be traced twice, for the variables that it makes: the last trace is called.
    steps = runs_of_graphs.setdefault(id(outermost), collections.Counter())
    steps[program] += 1 if graph is outermost else 0


def _function_call(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if not spans.are_recorded() or spans.is_executing() or tf.inside_function():
            return stock(function, *args, **kwargs)
        runs_of_graphs: dict[int, collections.Counter[str]] = {}
        token, begin_ns = _RUNS_OF_GRAPHS.set(runs_of_graphs), time.perf_counter_ns()
        try:
            return stock(function, *args, **kwargs)
        finally:
            _RUNS_OF_GRAPHS.reset(token)
            if runs_of_graphs:
                *_, _runs[function] = runs_of_graphs.values()
            for program, steps in _runs.get(function, {}).items():
                spans.record("run", "execution", begin_ns=begin_ns, program=program, steps=steps)

    return call


def _checkpoint_call(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def call(checkpoint: Any, *args: Any, **kwargs: Any) -> Any:
        name = f"{type(checkpoint).__name__}.{stock.__name__}"
        with spans.span(name, "checkpoint"):
            return stock(checkpoint, *args, **kwargs)

    return call


_REPLACEMENTS: Mapping[patches.Patch, patches.Wrap] = MappingProxyType(
    {patches.FUNCTION_CALLS: _function_call}
    | dict.fromkeys(patches.CHECKPOINT_FILES, _checkpoint_call)
)
