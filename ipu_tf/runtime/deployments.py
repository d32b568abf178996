"""Which traced functions are pipelines: those of models that know their stages."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ipu_tf.compiler.pipeline.deployment import Deployment

_GIVEN: ContextVar[Deployment | None] = ContextVar("ipu_tf.pipelines", default=None)


@functools.singledispatch
def _of_class(owner: Any, function: str) -> Deployment | None:
    """What nobody registered a class for is no pipeline."""
    del owner, function
    return None


register = _of_class.register
"""Registers a function from an object and the name of its method to a pipeline, or None, for the
class in the annotation of its first parameter."""


def deployment_of(owner: Any, function: str) -> Deployment | None:
    """Returns how a method of an object runs as a pipeline, None where it does not.

    Args:
        owner: The object whose method is traced, or None.
        function: Name of the method, such as "train_step".
    """
    # By its type: models of ours say that their class is Keras' own.
    return _of_class.dispatch(type(owner))(owner, function)


@contextlib.contextmanager
def deployed(options: Deployment | None) -> Iterator[None]:
    """Makes a pipeline of what is traced inside, whoever owns it; None leaves that to the owner."""
    token = _GIVEN.set(options)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def current(owner: Any, function: str) -> Deployment | None:
    """Returns the pipeline that a function becomes, None for none; arguments of `deployment_of`."""
    return _GIVEN.get() or deployment_of(owner, function)
