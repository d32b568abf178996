"""What the compiler is told besides the function: the machine and how to plan for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ipu_tf.machine.target import CHIPS, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningOptions:
    """How a family of contractions is planned.

    Attributes:
        partials: Type of partial results of float16 inputs, "float32" or "float16".
        available_memory_proportion: Share of a tile's memory that a plan may take, in (0, 1].
    """

    partials: str = "float32"
    available_memory_proportion: float = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerOptions:
    """Options of a compilation; equal options and equal modules give equal programs.

    Attributes:
        target: The chip.
        matmul: How matmuls are planned.
        conv: How convolutions are planned.
        unsupported: "raise" or "warn" where an opcode has no cost.
        out_of_memory: "raise", "warn", or "report" (an estimate: neither raises nor warns)
            where the program does not fit.
    """

    target: Target = CHIPS["bow"]
    matmul: PlanningOptions = field(default_factory=PlanningOptions)
    conv: PlanningOptions = field(default_factory=PlanningOptions)
    unsupported: str = "raise"
    out_of_memory: str = "raise"
