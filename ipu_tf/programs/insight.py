"""A change of a program that was planned again, and what it gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Change: TypeAlias = Literal[
    "partials",
    "available_memory_proportion",
    "micro_batch",
    "gradient_accumulation",
    "stages",
    "schedule",
    "recompute",
    "io_tiles",
    "steps_per_execution",
]
"""The changed setting. micro_batch: samples of a micro-batch. gradient_accumulation: micro-batches
of a weight update. stages: the split of layers over IPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """A change that makes a program faster, or makes it fit, as planned again with the change.

    Attributes:
        change: The changed setting.
        advice: The code to write in the script.
        speedup: Seconds of a sample before over those after, as the script calls the program; above
            1 it is faster.
        cycles: Cycles of a run on the device with the change.
        samples_per_second: Samples per second with the change, as the script calls the program;
            None if they are not known.
        micro_batch_seconds: Seconds of a micro-batch then, on all replicas.
        max_tile_bytes: Bytes of the fullest tile with the change.
        makes_fit: Whether the program fits only with the change.
    """

    change: Change
    advice: str
    speedup: float
    cycles: int
    samples_per_second: float | None = None
    micro_batch_seconds: float = 0.0
    max_tile_bytes: int = 0
    makes_fit: bool = False

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key, best first."""
        return not self.makes_fit, -self.speedup
