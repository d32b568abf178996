"""Contexts that outlast a reset of the default graph, such as `keras.utils.clear_session`.

TensorFlow stores a thread's strategy, and how it makes variables, on the thread's default graph;
Keras stores the custom objects of a scope beside it. `clear_session` drops both: a strategy's scope
around it would lose its effect and could not be left.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from ipu_tf.internals import patches

_thread = threading.local()


class _Entries:
    """A context that is entered on every new default graph of the thread.

    Args:
        make: Makes the context; called once for each graph.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._stack = contextlib.ExitStack()

    def enter(self) -> None:
        """Enters the context on the default graph."""
        graph = tf.compat.v1.get_default_graph()
        context = self._make()
        context.__enter__()

        def leave(*error: Any) -> Any:
            # An entered context is nested with other contexts of its graph.
            with _default(graph):
                return context.__exit__(*error)

        self._stack.push(leave)

    def __enter__(self) -> _Entries:
        self.enter()
        return self

    def __exit__(self, *error: Any) -> bool:
        return bool(self._stack.__exit__(*error))


@contextlib.contextmanager
def outlasting_resets(make: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Keeps a context entered on this thread, even if the default graph is reset.

    The reset of TensorFlow's stack of graphs, with which `keras.utils.clear_session` ends, is
    replaced while any such context is open and restored by the last to close.

    Args:
        make: Makes the context; called again for each new default graph.
    """
    with patches.installed({patches.GRAPH_RESETS: _resetting}), _Entries(make) as entries:
        _open_here().append(entries)
        try:
            yield
        finally:
            _open_here().remove(entries)


def _open_here() -> list[_Entries]:
    """Returns the contexts that are open on this thread, the outermost first."""
    if not hasattr(_thread, "contexts"):
        _thread.contexts = []
    contexts: list[_Entries] = _thread.contexts
    return contexts


def _resetting(stock: Callable[[Any], None]) -> Callable[[Any], None]:
    """Makes a reset of the default graph enter the contexts of the thread again."""

    def reset(stack: Any) -> None:
        stock(stack)
        for entries in _open_here():
            entries.enter()

    return reset


def _default(graph: tf.Graph) -> AbstractContextManager[Any]:
    """Returns a context in which a graph is the default one."""
    if graph is tf.compat.v1.get_default_graph():
        return contextlib.nullcontext()
    context: AbstractContextManager[Any] = graph.as_default()
    return context
