"""Finds the variables and tables that exported functions use, which their files have to hold."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

_DEPTH = 4
"""Calls and containers that lead from a function to its tables, at most."""


def resources_of(
    functions: Iterable[tf.types.experimental.GenericFunction], objects: Iterable[object]
) -> list[tf.Tensor]:
    """Returns the objects that a SavedModel of some functions has to hold.

    Args:
        functions: tf.functions with an `input_signature`; their graphs know their variables.
        objects: Functions and objects that the functions call; tables are found in their closures.
    """
    graphs = [function.get_concrete_function().graph for function in functions]
    resources = {id(variable): variable for graph in graphs for variable in graph.variables}
    handles = {id(getattr(variable, "handle", None)) for variable in resources.values()}
    if not any(_is_table(outer, handles) for graph in graphs for outer, _ in graph.captures):
        return list(resources.values())
    ids: set[int] = set()
    for value in objects:
        for resource in _trackables(value, ids, _DEPTH):
            resources[id(resource)] = resource
    return list(resources.values())


def _is_table(captured: tf.Tensor, handles: set[int]) -> bool:
    """Returns whether a captured tensor is the handle of something other than a variable."""
    return captured.dtype in (tf.resource, tf.variant) and id(captured) not in handles


def _trackables(value: Any, visits: set[int], depth: int) -> Iterator[Any]:
    """Yields the objects with tables that a value is, holds or closes over."""
    if value is None or id(value) in visits or depth < 0:
        return
    visits.add(id(value))
    if hasattr(value, "layers") and hasattr(value, "train_step"):
        value = value.layers  # A model of Keras without its optimizer, which files cannot hold.
    if isinstance(value, tf.__internal__.tracking.Trackable) and not _is_function(value):
        yield value
        return
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for element in value:
            yield from _trackables(element, visits, depth - 1)
        return
    yield from _of_function(value, visits, depth)


def _of_function(value: Any, visits: set[int], depth: int) -> Iterator[Any]:
    for part in closed_over(value):
        yield from _trackables(part, visits, depth - 1)


def closed_over(value: tf.Tensor) -> Iterator[object]:
    """Yields the object of a method, and the variables that a function takes from outside."""
    function = getattr(value, "python_function", value)
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        yield owner
    function = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(function):
        variables = inspect.getclosurevars(function)
        yield from (*variables.nonlocals.values(), *variables.globals.values())


def _is_function(value: Any) -> bool:
    kinds = (
        tf.types.experimental.PolymorphicFunction,
        tf.types.experimental.ConcreteFunction,
    )
    return isinstance(value, kinds)
