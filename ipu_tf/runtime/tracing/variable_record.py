"""The variables that a computation makes, which are the same when it is traced once more."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import tensorflow as tf

from ipu_tf.internals.graphs import (
    UnliftableError,
    forget_variables,
    graph_of_session,
    in_graph_of_session,
    is_eager,
)

_NUMBER = re.compile(r"_\d+(?=/|:|$)")


class VariableRecord:
    """Gives each trace of a computation the variables that the trace before it made.

    A computation makes its variables in the same order each time, under names that differ in the
    numbers that make them unique.
    """

    def __init__(self) -> None:
        self._variables: list[tuple[str, tf.Variable]] = []
        self._queues: dict[str, deque[tf.Variable]] = {}

    def begin_trace(self) -> None:
        """Offers all variables made so far to the trace that begins, which makes them anew."""
        forget_variables([variable for _, variable in self._variables])
        self._queues = {}
        for key, variable in self._variables:
            self._queues.setdefault(key, deque()).append(variable)

    def create(self, next_creator: Callable[..., tf.Variable], **kwargs: object) -> tf.Variable:
        """Returns the next variable of this name, a new one if there is none; a creator's scope.

        Raises:
            ValueError: The initial value depends on inputs of the computation.
        """
        key = _NUMBER.sub("", cast(str | None, kwargs.get("name")) or "")
        variables = self._queues.get(key)
        if variables:
            return variables.popleft()
        with tf.device(None):  # The host initialises it; TensorFlow has no device of an IPU's name.
            variable = next_creator(**_initialized_by_session(kwargs))
        self._variables.append((key, variable))
        return variable


def _initialized_by_session(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a variable with an initial value that a session can compute."""
    value = arguments.get("initial_value")
    if not isinstance(value, tf.Tensor) or is_eager(value) or value.graph is graph_of_session():
        return arguments
    try:
        return {**arguments, "initial_value": in_graph_of_session(value)}
    except UnliftableError:
        raise ValueError(
            f"The initial value of variable '{arguments.get('name')}' depends on inputs of the "
            "computation, and a session initializes variables before it runs one. Start from a "
            f"constant, and assign the value in the computation. Received: {value!r}."
        ) from None
