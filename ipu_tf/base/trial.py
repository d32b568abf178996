"""The most steps that a loop runs while a script is tried out, as by `ipu-tf run --max-steps`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

_limit: int | None = None
_cuts: dict[str, None] = {}


@contextlib.contextmanager
def steps_limited_to(steps: int | None) -> Iterator[None]:
    """Limits the steps of each loop of the process; None leaves them.

    Raises:
        ValueError: The number is not positive.
    """
    global _limit, _cuts
    if steps is not None and steps < 1:
        raise ValueError(f"A loop must run at least one step. Received: {steps}.")
    outer, _limit = _limit, steps
    outer_cuts, _cuts = _cuts, {}
    try:
        yield
    finally:
        _limit, _cuts = outer, outer_cuts


def step_limit() -> int | None:
    """Returns the most steps of a loop; None if there is no limit."""
    return _limit


def note_cut(logger: logging.Logger, loop: str, limit: int) -> None:
    """Warns of a loop that the limit cuts short, and keeps it for the end of the script.

    Args:
        logger: Logs the warning.
        loop: What runs how many steps, as "`fit` of model 'm' runs 2 of 36 steps".
        limit: The most steps of a loop.
    """
    logger.warning("%s (--max-steps %d).", loop, limit)
    _cuts[loop] = None


def cuts() -> tuple[str, ...]:
    """Returns which loops the limit has cut short so far, each once."""
    return tuple(_cuts)


def limited_steps(steps: int, *, of_update: int = 1) -> int:
    """Returns how many of its steps a loop runs: whole updates within the limit, at least one.

    Args:
        steps: Steps of the loop.
        of_update: Steps of a weight update.
    """
    if _limit is None or steps <= _limit:
        return steps
    return min(steps, max(of_update, _limit // of_update * of_update))
