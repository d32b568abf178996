"""The input of a program's compilation, kept to plan the program again with a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.traced_step import TracedStep


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """The input of a program's compilation, kept so that it can be planned again.

    Attributes:
        step: The traced step.
        deployment: Its stages, and how they run; None for the whole on one IPU.
        io_tiles: Tiles that are set aside for input and output.
        at_batch_size: Maps the samples of a micro-batch to the step traced for them, or to None if
            its model is gone; None if only the step at hand is known.
    """

    step: TracedStep
    deployment: Deployment | None = None
    io_tiles: int = 0
    at_batch_size: Callable[[int], TracedStep | None] | None = None
