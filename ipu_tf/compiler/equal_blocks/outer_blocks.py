"""The trace of a few equal blocks, kept with the step of all blocks that was made from it."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.compiler.equal_blocks.repetition import Repetition
from ipu_tf.compiler.hlo import Module


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OuterBlocks:
    """The trace from which the step of a model of equal blocks was made.

    Attributes:
        trace: The step of four of the blocks, as traced.
        repetition: All blocks.
        longer: The step of all blocks, as if traced.
    """

    trace: Module
    repetition: Repetition
    longer: Module
