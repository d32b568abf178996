"""Looks up how traced functions run as pipelines, for models that have stages."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.planner.stage_planning import StagePlanning

COMPILED_APART = "_ipu_compiled_apart"
"""Attribute of calls whose function has a device program of its own."""

_DEPLOYMENT: ContextVar[Deployment | None] = ContextVar("ipu_tf.pipelines", default=None)


@functools.singledispatch
def _of_class(owner: Any, function: str) -> Deployment | None:
    """Returns None: no class is registered for the owner."""
    del owner, function
    return None


register = _of_class.register
"""Registers a function for the class in its first parameter's annotation. The function maps an
object and the name of its method to a pipeline, or None."""


@functools.singledispatch
def _planning_of_class(owner: Any) -> Mapping[str, StagePlanning] | None:
    """Returns None: no class is registered for the owner."""
    del owner
    return None


register_planning = _planning_of_class.register
"""Registers a function for the class in its first parameter's annotation. The function maps an
object to what its stages say of the planners, by the paths of their layers, or None."""


def planning_of(owner: object) -> Mapping[str, StagePlanning] | None:
    """Returns what the stages of an object whose method is traced say of the planners.

    Args:
        owner: The object, or None.
    """
    return _planning_of_class.dispatch(type(owner))(owner)


def deployment_of(owner: object, function: str) -> Deployment | None:
    """Returns how a method of an object runs as a pipeline, None if it does not.

    Args:
        owner: The object whose method is traced, or None.
        function: Name of the method, such as "train_step".
    """
    # Dispatches on type(): our models report Keras' class as their `__class__`.
    return _of_class.dispatch(type(owner))(owner, function)


@contextlib.contextmanager
def deployment_scope(options: Deployment | None) -> Iterator[None]:
    """Makes functions traced inside a pipeline, whatever their owner; None asks the owner."""
    token = _DEPLOYMENT.set(options)
    try:
        yield
    finally:
        _DEPLOYMENT.reset(token)


def current(owner: object, function: str) -> Deployment | None:
    """Returns the pipeline of a function, None for none; the arguments are `deployment_of`'s."""
    return _DEPLOYMENT.get() or deployment_of(owner, function)
