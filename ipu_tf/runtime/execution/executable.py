"""Executables: functions that are traced once per device configuration, then only run."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.config import DeviceConfiguration
from ipu_tf.internals.autograph import converted, uses_autograph
from ipu_tf.internals.graphs import jit_compiles
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import TfMethodTarget, unwrap_decorators

Body = Callable[
    [Callable[..., TensorStructure], tuple[TensorStructure, ...], dict[str, TensorStructure]],
    TensorStructure,
]
"""Runs a Python function with its arguments inside of a trace."""


_JITTED: ContextVar[bool] = ContextVar("ipu_tf.jitted", default=False)


@dataclass(frozen=True, slots=True)
class _Target:
    """A function as held by the cache: weakly, and a bound method as object and function."""

    function: weakref.ref[Callable[..., Any]]
    owner: weakref.ref[Any] | None

    def callable(self) -> Callable[..., Any]:
        function = self.function()
        owner = None if self.owner is None else self.owner()
        if function is None or (self.owner is not None and owner is None):
            raise ReferenceError("The function of this executable was deleted.")
        return function if owner is None else types.MethodType(function, owner)

    @property
    def key(self) -> Hashable:
        return id(self.function()), None if self.owner is None else id(self.owner())


def is_jitted() -> bool:
    """Returns whether the function that `strategy.run` is tracing has `jit_compile=True`."""
    return _JITTED.get()


def python_function(fn: Callable[..., TensorStructure]) -> Callable[..., TensorStructure]:
    """Returns the Python function (or bound method) inside a tf.function, or `fn` itself."""
    inner = getattr(fn, "python_function", fn)
    _, inner = unwrap_decorators(inner)
    owner = getattr(inner, "__self__", None)
    if isinstance(owner, TfMethodTarget):
        return types.MethodType(inner.__func__, owner.target)
    return inner


def function_name(fn: Callable[..., TensorStructure]) -> str:
    """Returns the name of a function; for a concrete function, that of its Python function."""
    if isinstance(fn, tf.types.experimental.ConcreteFunction):
        return str(fn.graph.name)
    return str(getattr(fn, "__name__", type(fn).__name__))


class Identity:
    """A key that equals another of the same object; both hold the object weakly.

    Args:
        value: The object. One without weak references, as few built-in functions, is kept.
    """

    __slots__ = ("_hash", "_value")

    def __init__(self, value: object) -> None:
        self._hash = id(value)
        try:
            self._value: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._value = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return NotImplemented
        value = self._value()
        return self is other or (value is not None and value is other._value())


def _target_of(fn: Any) -> _Target:
    inner = python_function(fn)
    if isinstance(inner, types.MethodType):
        return _Target(weakref.ref(inner.__func__), weakref.ref(inner.__self__))
    return _Target(weakref.ref(inner), None)


class ExecutableCache:
    """Maps unwrapped function and configuration to executables, which trace by shapes and dtypes.

    Functions and the objects of bound methods are held weakly: their executables end with them.

    Args:
        body: Called in a trace, with the Python function and its arguments.
    """

    def __init__(self, body: Body) -> None:
        self._body = body
        self._executables: dict[Hashable, tf.types.experimental.PolymorphicFunction] = {}

    def __len__(self) -> int:
        return len(self._executables)

    def clear(self) -> None:
        """Drops every executable."""
        self._executables.clear()

    def executable(
        self, fn: Callable[..., TensorStructure], configuration: DeviceConfiguration
    ) -> tf.types.experimental.PolymorphicFunction:
        """Returns the executable of `fn` for a device of this configuration and the current scopes.

        Args:
            fn: A tf.function or ConcreteFunction.
            configuration: Part of the key, as are the scopes around the call.
        """
        target = _target_of(fn)
        key = (target.key, configuration, scopes.current(), jit_compiles(fn))
        executable = self._executables.get(key)
        if executable is None:
            executable = self._executables[key] = _traceable(fn, target, self._body)
            for part in (target.function(), target.owner and target.owner()):
                if part is not None:
                    weakref.finalize(part, self._executables.pop, key, None).atexit = False
        return executable


def _traceable(fn: Any, target: _Target, body: Body) -> tf.types.experimental.PolymorphicFunction:
    """Returns a tf.function that traces `target` through `body` and holds it weakly."""
    converts, jitted = uses_autograph(fn), jit_compiles(fn)

    def run(*args: TensorStructure, **kwargs: TensorStructure) -> TensorStructure:
        python = target.callable()
        if converts:
            python = converted(python)
        token = _JITTED.set(jitted)
        try:
            return body(python, args, kwargs)
        finally:
            _JITTED.reset(token)

    run.__name__ = function_name(python_function(fn))
    run.__qualname__ = run.__name__
    # TensorFlow counts the traces of equal code to warn about functions traced too often.
    run.__code__ = run.__code__.replace(co_name=run.__name__)
    return tf.function(run, autograph=False)
