"""Scopes that override the configuration for the operations created inside them.

A scope belongs to the thread, and to the async task, that entered it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from ipu_tf.config.poplar_options import parse_partials


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeState:
    """The overrides of the scopes around an operation; None leaves it to the configuration.

    Attributes:
        stochastic_rounding: Whether float16 results are rounded stochastically.
        partials: Type of partial sums of float16 matmuls and convolutions.
    """

    stochastic_rounding: bool | None = None
    partials: Literal["float16", "float32"] | None = None


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


def partials_type(override_type: Any) -> contextlib.AbstractContextManager[None]:
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


@contextlib.contextmanager
def _overriding(**overrides: Any) -> Iterator[None]:
    token = _STATE.set(dataclasses.replace(_STATE.get(), **overrides))
    try:
        yield
    finally:
        _STATE.reset(token)
