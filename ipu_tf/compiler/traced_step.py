"""The compiler's input for a traced function, before it is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.equal_blocks.outer_blocks import OuterBlocks
from ipu_tf.compiler.hlo import Module
from ipu_tf.planner.plan import OpShape, Plan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedStep:
    """The compiler's input for a traced function.

    Attributes:
        module: Its HLO.
        options: The compiler's options.
        plans: Plans of its tile ops.
        samples_per_run: Samples of one run; 0 if unknown.
        outer: The trace of a few equal blocks that it was made from; None if it was traced whole.
    """

    module: Module
    options: CompilerOptions
    plans: Mapping[str, tuple[OpShape, Plan]]
    samples_per_run: int
    outer: OuterBlocks | None = None
