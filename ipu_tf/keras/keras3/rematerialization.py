"""`keras.RematScope` and `keras.remat` in the scope of a strategy.

Stock Keras runs such a function again on the host, by `tf.recompute_grad`. In a graph this refuses
keyword arguments, such as `training`, and dropout in it draws another mask. Here the function runs
once on the host, in a name scope that the compiler knows: the device program recomputes its values.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

import tensorflow as tf

from ipu_tf.compiler.recomputation import marks
from ipu_tf.internals import patches
from ipu_tf.runtime.tracing import hooks
from ipu_tf.strategy import IPUStrategyV1, extend_scopes

_thread = threading.local()
_Result = TypeVar("_Result")


@extend_scopes
@contextlib.contextmanager
def scope(strategy: IPUStrategyV1) -> Iterator[None]:
    """Marks functions that Keras rematerializes inside, on this thread, for the compiler.

    Args:
        strategy: The strategy whose scope is entered.
    """
    del strategy
    with patches.installed(_REPLACEMENTS):
        _thread.depth = getattr(_thread, "depth", 0) + 1
        try:
            yield
        finally:
            _thread.depth -= 1


def _rematerialization(
    stock: Callable[[Callable[..., _Result]], Callable[..., _Result]],
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Makes functions of graphs keep their place in a name scope instead of running again."""

    def remat(function: Callable[..., _Result]) -> Callable[..., _Result]:
        again = stock(function)

        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> _Result:
            is_ours = getattr(_thread, "depth", 0) or hooks.active() is not None
            if tf.executing_eagerly() or not is_ours:
                return again(*args, **kwargs)
            with tf.name_scope(marks.REMATERIALIZED):
                return function(*args, **kwargs)

        return call

    return remat


_REPLACEMENTS: Mapping[patches.Patch, patches.Wrap] = MappingProxyType(
    {patches.REMATERIALIZATION: _rematerialization}
)
