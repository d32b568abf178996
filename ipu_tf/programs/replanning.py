"""Plans a program again with a change, and shares between the changes what they leave alone.

The changes share the simplified step. Steps of other batch sizes are traced once: any further size
follows from that trace and the step itself (`ipu_tf.compiler.extrapolation`).
"""

from __future__ import annotations

import dataclasses

from ipu_tf.compiler.compile import compile_simplified, simplified_step
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.extrapolation import NotLinear, extrapolated
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.planner.plan import PlanDoesNotFit
from ipu_tf.programs.source import Source
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.errors import IPUOutOfMemoryError

_TRACE = 4
"""Compilations that take as long as a trace, about: of ResNet-50, 3.3 s for 0.9 s."""

_MOST_RETRACES = 2
"""Traces for other batch sizes of programs with a limit; one, if its batch fits."""


class TooMuchWork(Exception):
    """Planning another change would exceed the limit of the work."""


class Replanning:
    """Plans the program of a source again.

    Args:
        source: The input of its compilation.
        most_instructions: Instructions to compile at most, over all changes; None for no limit.

    Attributes:
        source: The input of its compilation.
        notes: What could not be planned, and why.
    """

    def __init__(self, source: Source, most_instructions: int | None) -> None:
        self.source = source
        self.notes: list[str] = []
        self._budget = most_instructions
        self._size = sum(len(c.instructions) for c in source.step.module.computations.values())
        self._simplified: dict[bool, TracedStep] = {}
        self._other_batch: TracedStep | None = None
        self._other_traced: TracedStep | None = None
        self._retraces = _MOST_RETRACES if most_instructions is not None else None

    def compiled(
        self, *, options: CompilerOptions | None = None, deployment: Deployment | None = None
    ) -> DeviceProgram | None:
        """Returns the program with other options or another deployment; None if it has no plan.

        The plans of tile ops stay, unless other options ask the planner for others.

        Raises:
            TooMuchWork: The limit is reached.
        """
        self.spend(1)
        where = deployment or self.source.deployment
        step = self._step(options or self.source.step.options, where)
        new_options = dataclasses.replace(options or step.options, out_of_memory="report")
        equal_fields = ("target", "matmul", "conv")
        replans = any(
            getattr(new_options, name) != getattr(step.options, name) for name in equal_fields
        )
        new_step = dataclasses.replace(
            step, options=new_options, plans={} if replans else step.plans
        )
        return _compiled(new_step, where)

    def with_samples(self, samples: int) -> DeviceProgram | None:
        """Returns the program with micro-batches of other samples; None if it cannot be traced.

        Raises:
            TooMuchWork: The limit is reached.
        """
        step = self._of_samples(samples)
        if step is None:
            return None
        self.spend(1)
        program = _compiled(step, self.source.deployment)
        if program is not None and program.fits and self._retraces:
            self._retraces = 0  # What no trace derives is not worth another one.
        return program

    def spend(self, compilations: int) -> None:
        """Counts the work of some compilations of the whole step.

        Raises:
            TooMuchWork: The limit is reached.
        """
        if self._budget is None:
            return
        if self._budget < compilations * self._size:
            raise TooMuchWork
        self._budget -= compilations * self._size

    def _step(self, options: CompilerOptions, deployment: Deployment | None) -> TracedStep:
        """Returns the simplified step, with its checkpoints if it recomputes activations."""
        recompute = _recomputes(options, deployment)
        if recompute not in self._simplified:
            self._simplified[recompute] = _simplified(self.source.step, recompute=recompute)
        return self._simplified[recompute]

    def _of_samples(self, samples: int) -> TracedStep | None:
        """Returns the simplified step of some samples: traced the first time, then derived."""
        options, deployment = self.source.step.options, self.source.deployment
        if self._other_batch is not None:
            derived = self._derived(samples)
            if derived is not None:
                return derived
        if self.source.at_batch_size is None:
            return None
        if self._retraces == 0:
            self.notes.append(
                f"batches of {samples} samples, which need another trace; "
                "`with_insights()` plans them"
            )
            return None
        self.spend(_TRACE)
        if self._retraces is not None:
            self._retraces -= 1
        try:
            traced = self.source.at_batch_size(samples)
        except Exception as error:  # Of the user's model, too, which may allow one size alone.
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            self.notes.append(f"batches of {samples} samples: {reason}")
            return None
        if traced is None:
            return None
        step = _simplified(traced, recompute=_recomputes(options, deployment))
        if self._other_batch is None:
            self._other_batch, self._other_traced = step, traced
        return step

    def _derived(self, samples: int) -> TracedStep | None:
        """Returns the simplified step that follows from the two that are known; None if none does.

        Simplification may take another course for other sizes: then the traces are compared.
        """
        options, deployment = self.source.step.options, self.source.deployment
        assert self._other_batch is not None
        assert self._other_traced is not None
        try:
            return extrapolated(self._step(options, deployment), self._other_batch, samples)
        except PlanDoesNotFit:
            return None
        except NotLinear:
            pass
        try:
            traced = extrapolated(self.source.step, self._other_traced, samples)
        except (NotLinear, PlanDoesNotFit):
            return None
        return _simplified(traced, recompute=_recomputes(options, deployment))


def _recomputes(options: CompilerOptions, deployment: Deployment | None) -> bool:
    return options.recompute if deployment is None else deployment.recompute


def _simplified(step: TracedStep, *, recompute: bool) -> TracedStep:
    options = dataclasses.replace(step.options, out_of_memory="report")
    module = simplified_step(step.module, recompute=recompute, outer=step.outer)
    return dataclasses.replace(step, module=module, options=options)


def _compiled(step: TracedStep, deployment: Deployment | None) -> DeviceProgram | None:
    """Returns the program of a simplified step; None if an operation alone fits no tile."""
    try:
        return compile_simplified(
            step.module, step.options, step.plans, step.samples_per_run, deployment
        )
    except (IPUOutOfMemoryError, PlanDoesNotFit):
        return None
