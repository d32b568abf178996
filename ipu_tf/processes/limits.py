"""How long processes wait for each other."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

WAIT = "IPU_TF_COLLECTIVE_SECONDS"
HEARTBEAT = "IPU_TF_HEARTBEAT_SECONDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long processes wait for each other.

    Attributes:
        wait_seconds: For a process that runs, but does not come to a collective.
        heartbeat_seconds: For a sign of life of a process.
        farewell_seconds: For the others to end, after a failure.
    """

    wait_seconds: float = 120.0
    heartbeat_seconds: float = 60.0
    farewell_seconds: float = 10.0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """Returns the limits that the environment sets.

        Raises:
            ValueError: A variable is no positive number.
        """
        return cls(
            wait_seconds=_seconds(environment, WAIT, cls().wait_seconds),
            heartbeat_seconds=_seconds(environment, HEARTBEAT, cls().heartbeat_seconds),
        )


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise ValueError(f"{name} must be a number of seconds above 0. Received: {text!r}.")
    return seconds
