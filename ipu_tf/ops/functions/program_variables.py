"""Variables that functions of ops create, by name, as those of TensorFlow 1 do.

In a graph of TensorFlow 1 they are its variables. While `strategy.run` traces a function, they
belong to the function, so its other traces and calls use the same ones. Any other call makes new
ones.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph, eagerly_outside_of_functions

Initializer = Callable[..., tf.Tensor]


class _Names:
    """The names of one trace, and the variables of the function that is traced."""

    def __init__(self, variables: dict[str, tf.Variable]) -> None:
        self.variables = variables
        self._uses: Counter[str] = Counter()

    def unique(self, name: str) -> str:
        """Returns the name, with a number if the trace used it before."""
        count = self._uses[name]
        self._uses[name] += 1
        return f"{name}_{count}" if count else name


_TRACE: ContextVar[_Names | None] = ContextVar("ipu_tf.program_variables", default=None)
_variables: weakref.WeakKeyDictionary[Any, dict[str, tf.Variable]] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def variables_of(function: object) -> Iterator[None]:
    """Makes variables that are created inside belong to a function, or to a method's object."""
    try:
        variables = _variables.setdefault(function, {})
    except TypeError:  # An object that nothing can refer to weakly, or that has no hash.
        variables = {}
    token = _TRACE.set(_Names(variables))
    try:
        yield
    finally:
        _TRACE.reset(token)


class VariableScope:
    """Names the variables of one call of an op.

    Args:
        scope: The name that the caller gives; calls with one name share their variables.
        default: The name of calls without one, each of which has variables of its own.
        reuse: `reuse` of `tf.compat.v1.variable_scope`, for graphs of TensorFlow 1.
    """

    def __init__(self, scope: object, default: str, reuse: bool | None = None) -> None:
        self._scope, self._default, self._reuse = scope, default, reuse
        trace = _TRACE.get()
        self._variables = {} if trace is None else trace.variables
        self._name, self._is_given = "", False
        if not _builds_v1_graph():
            outer = tf.compat.v1.get_variable_scope().name
            scope_name = scope if isinstance(scope, str) else getattr(scope, "name", None)
            name = f"{outer}/{scope_name or default}" if outer else scope_name or default
            self._name = name if scope_name or trace is None else trace.unique(name)
            self._is_given = bool(scope_name)

    @contextlib.contextmanager
    def opened(self, values: list[tf.Tensor]) -> Iterator[None]:
        """Opens the scope for the op's work and its variables."""
        if _builds_v1_graph():
            with tf.compat.v1.variable_scope(
                self._scope, self._default, values, reuse=self._reuse, use_resource=True
            ):
                yield
        else:
            with tf.name_scope(self._default):
                yield

    def variable(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: tf.DType,
        initializer: Initializer,
        *,
        trainable: bool = True,
        collections: object = None,
    ) -> tf.Variable:
        """Returns the variable of a name, made at the first call.

        Args:
            name: Its name in the scope.
            shape: Its shape.
            dtype: Its type.
            initializer: Makes its first value from shape and dtype.
            trainable: Whether it is trained.
            collections: Its collections in a graph of TensorFlow 1.
        """
        if _builds_v1_graph():
            return tf.compat.v1.get_variable(
                name,
                shape,
                dtype,
                lambda shape, dtype, **_: tf.cast(initializer(shape, dtype=dtype), dtype),
                trainable=trainable,
                collections=collections,
            )
        key = f"{self._name}/{name}"
        if not self._is_given:  # A trace for other inputs has others.
            key = f"{key} of {dtype.name}{tuple(shape)}"
        if key not in self._variables:
            with eagerly_outside_of_functions():  # Other traces use the variable, too.
                value = tf.cast(initializer(shape, dtype=dtype), dtype)
                self._variables[key] = tf.Variable(value, trainable=trainable, name=name)
        variable = self._variables[key]
        if tuple(variable.shape) != tuple(shape) or variable.dtype != dtype:
            raise ValueError(
                f"Variable '{key}' has {variable.dtype.name}{variable.shape}, and another call "
                f"of its name asks for {dtype.name}{tuple(shape)}. Give each call a `scope` of its "
                "own."
            )
        return variable


def _builds_v1_graph() -> bool:
    """Returns whether ops are created in a graph of TensorFlow 1, or in a function in one."""
    with tf.init_scope():
        return not tf.executing_eagerly() and not isinstance(
            tf.compat.v1.get_default_graph(), FuncGraph
        )
