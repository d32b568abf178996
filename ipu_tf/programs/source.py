"""The input of a program's compilation, kept to plan the program again with a change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.device_program import DeviceProgram
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

    def compiled(
        self,
        *,
        step: TracedStep | None = None,
        options: CompilerOptions | None = None,
        deployment: Deployment | None = None,
    ) -> DeviceProgram:
        """Returns the program with something else in place; it may not fit.

        The plans of tile ops stay, unless other options ask the planner for others.
        """
        step = step or self.step
        wanted = dataclasses.replace(options or step.options, out_of_memory="report")
        same = ("target", "matmul", "conv")
        replans = any(getattr(wanted, name) != getattr(step.options, name) for name in same)
        plans = {} if replans else step.plans
        where = deployment or self.deployment
        return compile_program(step.module, wanted, plans, step.samples_per_run, where)
