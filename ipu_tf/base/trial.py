"""The most steps that a loop runs while a script is tried out, as by `ipu-tf run --max-steps`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_limit: int | None = None


@contextlib.contextmanager
def steps_limited_to(steps: int | None) -> Iterator[None]:
    """Limits the steps of each loop of the process; None leaves them.

    Raises:
        ValueError: The number is not positive.
    """
    global _limit
    if steps is not None and steps < 1:
        raise ValueError(f"A loop must run at least one step. Received: {steps}.")
    outer, _limit = _limit, steps
    try:
        yield
    finally:
        _limit = outer


def step_limit() -> int | None:
    """Returns the most steps of a loop; None if there is no limit."""
    return _limit


def limited_steps(steps: int, *, of_update: int = 1) -> int:
    """Returns how many of its steps a loop runs: whole updates within the limit, at least one.

    Args:
        steps: Steps of the loop.
        of_update: Steps of a weight update.
    """
    if _limit is None or steps <= _limit:
        return steps
    return min(steps, max(of_update, _limit // of_update * of_update))
