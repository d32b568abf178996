"""User spans of the host timeline."""

from __future__ import annotations

import contextlib

from ipu_tf.base import spans


def trace(name: str) -> contextlib.AbstractContextManager[None]:
    """Returns a context whose time is a span of the host timeline of profiled strategies.

    It does nothing unless a strategy is made with `profile=True`.

    Args:
        name: The name of the span.

    Raises:
        TypeError: `name` is no string.

    Example:
        >>> strategy = ipu_tf.IPUStrategy(profile=True)
        >>> with ipu_tf.profile.trace("load data"):
        ...     data = load()
        >>> strategy.report().host
    """
    if not isinstance(name, str):
        raise TypeError(
            "`ipu_tf.profile.trace` takes the name of a span, a string. "
            f"Received: {name!r} of type {type(name).__name__}."
        )
    return spans.span(name, "user")
