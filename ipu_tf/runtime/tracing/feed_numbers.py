"""Marks inputs of programs that number feeds: the host uses them, the device never gets them."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph

_MARKS: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def mark(tensor: tf.Tensor) -> None:
    """Marks a tensor of a graph as the number of a feed."""
    _MARKS.setdefault(tensor.graph, set()).add(tensor.name)


def is_marked(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor, or the one outside that a function captures as it, is marked."""
    while isinstance(graph := getattr(tensor, "graph", None), FuncGraph):
        if tensor.name in _MARKS.get(graph, ()):
            return True
        outer = [source for source, inner in graph.captures if inner is tensor]
        if not outer:
            return False
        (tensor,) = outer
    return False
