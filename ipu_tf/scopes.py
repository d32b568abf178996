"""Scopes that override the configuration for the operations created inside them.

A scope belongs to the thread, and to the async task, that entered it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import tensorflow as tf

from ipu_tf.config.poplar_options import parse_partials
from ipu_tf.planner.stage_planning import StagePlanning


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeState:
    """The overrides of the scopes around an operation; None leaves it to the configuration.

    Attributes:
        stochastic_rounding: Whether float16 results are rounded stochastically.
        partials: Type of partial sums of float16 matmuls and convolutions.
        on_ipu: Whether `ipu_scope` is open.
        outside: Whether `outside_compilation_scope` is open: the host runs the operation.
        shard: The IPU of the innermost `ipu_shard`.
        planning: What stages say of the planners, by the path of their layers; "" for all.
    """

    stochastic_rounding: bool | None = None
    partials: Literal["float16", "float32"] | None = None
    on_ipu: bool = False
    outside: bool = False
    shard: int | None = None
    planning: Mapping[str, StagePlanning] | None = None


_DEVICE = re.compile(r"(?:/[^/]+)*?/?(?:device:)?IPU:\d+", re.IGNORECASE)
_NO_OVERRIDES = ScopeState()
_STATE: ContextVar[ScopeState] = ContextVar("ipu_tf.scopes", default=_NO_OVERRIDES)


def current() -> ScopeState:
    """Returns the overrides of the scopes around the caller; the innermost of each kind wins."""
    return _STATE.get()


def stochastic_rounding(override: bool) -> contextlib.AbstractContextManager[None]:
    """Turns stochastic rounding on or off for the operations created inside.

    Args:
        override: True turns it on, False off, regardless of `floating_point_behaviour.esr`.

    Raises:
        TypeError: `override` is not a bool.

    Example:
        ```python
        with ipu_tf.scopes.stochastic_rounding(False):
            y = tf.matmul(x, w)
        ```
    """
    if type(override) is not bool:
        raise TypeError(
            "stochastic_rounding takes True or False. "
            f"Received: {override!r} of type {type(override).__name__}."
        )
    return _overriding(stochastic_rounding=override)


def partials_type(override_type: object) -> contextlib.AbstractContextManager[None]:
    """Sets the type of partial sums for the matmuls and convolutions created inside.

    Operations on float32 inputs always have float32 partials.

    Args:
        override_type: float16 or float32, as a TensorFlow or NumPy type or as its name.

    Raises:
        ValueError: It is another type.
    """
    partials = parse_partials(override_type)
    if partials is None:
        raise ValueError(
            f"partials_type takes tf.float16 or tf.float32. Received: {override_type!r}."
        )
    return _overriding(partials=partials)


def stage_planning(
    planning: Mapping[str, StagePlanning] | None,
) -> contextlib.AbstractContextManager[None]:
    """Sets what stages of a pipeline say of the planners, for the operations created inside.

    Args:
        planning: By the path of the layers of a stage; "" for all operations. None ends it.
    """
    return _overriding(planning=planning)


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[None]:
    """Places the operations created inside on an IPU, for `ipu_compiler.compile`.

    Variables made inside are resource variables. In eager mode it has no further effect: what
    `strategy.run` runs is on the IPU.

    Args:
        device: Name of the device, "/device:IPU:0" for example.

    Raises:
        ValueError: It is not the name of an IPU device.
    """
    if not isinstance(device, str) or _DEVICE.fullmatch(device) is None:
        raise ValueError(
            f'ipu_scope takes the name of an IPU device, "/device:IPU:0". Received: {device!r}.'
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(_overriding(on_ipu=True))
        if not tf.executing_eagerly():
            # A scope that is entered by its object gives the names inside once more after it.
            scope = tf.compat.v1.get_variable_scope()
            name = scope if scope.name else ""
            stack.enter_context(tf.compat.v1.variable_scope(name, use_resource=True))
        yield


def is_on_ipu() -> bool:
    """Returns whether the caller is in an `ipu_scope`."""
    return current().on_ipu


def ipu_jit_scope(ipu_scope: object) -> contextlib.AbstractContextManager[None]:
    """Returns a context without effect: a program of the IPU is compiled as a whole.

    Args:
        ipu_scope: Unused; scripts pass the scope around it.
    """
    del ipu_scope
    return contextlib.nullcontext()


def frontend_attribute(
    attribute_name: str, attribute_value: str, restore_to: str | None = None
) -> contextlib.AbstractContextManager[None]:
    """Returns a context without effect: attributes are hints for another compiler.

    Args:
        attribute_name: Name of the attribute.
        attribute_value: Its value.
        restore_to: Its value after the context.

    Raises:
        TypeError: An argument is not a string.
    """
    for value in (attribute_name, attribute_value, restore_to or ""):
        if not isinstance(value, str):
            raise TypeError(f"frontend_attribute takes strings. Received: {value!r}.")
    return contextlib.nullcontext()


@contextlib.contextmanager
def outside_compilation_scope(name: str = "outside") -> Iterator[None]:
    """Makes the host run the operations created inside, in the middle of a program of the IPU.

    Their operands and results go from and to the host, which the device program charges for each
    operation. They have TensorFlow's own arithmetic.

    Args:
        name: Name scope of the operations.

    Raises:
        ValueError: It is not inside of a program of the IPU, or nested.
    """
    if _PROGRAM.get() is None:
        raise ValueError(
            "outside_compilation_scope is outside of a program of the IPU. Use it in a function "
            "that `strategy.run` runs, or in the computation of `ipu_compiler.compile`."
        )
    if current().outside:
        raise ValueError(
            "outside_compilation_scope cannot be nested: the host runs these operations already."
        )
    with _overriding(outside=True), tf.name_scope(name):
        yield


def runs_on_ipu() -> bool:
    """Returns whether an operation created now runs on an IPU, in a program or an `ipu_scope`."""
    return not current().outside and (_PROGRAM.get() is not None or is_on_ipu())


def on_host(name: str) -> contextlib.AbstractContextManager[object]:
    """Returns a context in which the host runs operations, in a program of the IPU or elsewhere.

    Args:
        name: Name scope of the operations.
    """
    if _PROGRAM.get() is None or current().outside:
        return tf.name_scope(name)
    return outside_compilation_scope(name)


@contextlib.contextmanager
def ipu_shard(index: int) -> Iterator[None]:
    """Places the operations created inside on one of the IPUs of a program.

    Their gradients are on the same IPU. Numbers do not depend on it.

    Args:
        index: Number of the IPU, from 0.

    Raises:
        ValueError: It is negative or no number, or the device has fewer IPUs.
    """
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise ValueError(f"ipu_shard takes the number of an IPU from 0. Received: {index!r}.")
    program = _PROGRAM.get()
    if program is None:
        yield
        return
    with tf.name_scope(f"ipu_shard_{index}") as scope, _overriding(shard=index):
        program.enter_shard(scope.rstrip("/"), index)
        yield


class ProgramScopes(Protocol):
    """A program that is being traced, which scopes tell of its parts."""

    def enter_shard(self, scope: str, ipu: int) -> None:
        """Notes that the operations of a name scope are on an IPU of the program."""


_PROGRAM: ContextVar[ProgramScopes | None] = ContextVar("ipu_tf.program", default=None)


@contextlib.contextmanager
def within(program: ProgramScopes) -> Iterator[None]:
    """Makes `program` the one that is being traced."""
    token = _PROGRAM.set(program)
    try:
        yield
    finally:
        _PROGRAM.reset(token)


@contextlib.contextmanager
def _overriding(**overrides: Any) -> Iterator[None]:
    token = _STATE.set(dataclasses.replace(_STATE.get(), **overrides))
    try:
        yield
    finally:
        _STATE.reset(token)
