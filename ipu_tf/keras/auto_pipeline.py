"""`auto_pipeline`: chooses the pipeline of a model by its modelled cycles and memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from ipu_tf.compiler.passes.pipeline import simplify
from ipu_tf.compiler.pipeline import PipelineOptions, PipelineProgram, Schedule, build_pipeline
from ipu_tf.compiler.pipeline.balance import (
    LayerFigures,
    Wanted,
    balanced_stages,
    cycles_per_byte,
    even_stages,
    layer_figures,
)
from ipu_tf.compiler.pipeline.compile import check_memory
from ipu_tf.config import IPUConfig
from ipu_tf.estimation import trace_training
from ipu_tf.keras.device_pipeline import as_programs_name_them
from ipu_tf.keras.pipeline.extension import PipelineExtensions
from ipu_tf.keras.pipeline.layer_graph import Invocation
from ipu_tf.machine.system import system_of
from ipu_tf.ops.pipelining_ops import PipelineSchedule, RecomputationMode, schedule_depth
from ipu_tf.profile.pipeline_figures import samples_per_second
from ipu_tf.profile.units import percent
from ipu_tf.runtime.device_programs import TracedStep

_SCHEDULES: dict[Schedule, PipelineSchedule] = {
    "grouped": PipelineSchedule.Grouped,
    "interleaved": PipelineSchedule.Interleaved,
    "sequential": PipelineSchedule.Sequential,
}
_FOR_LAYERS = 0.8
"""Share of a chip's memory that the cuts are first made for; code and what is live only for a
moment take the rest. What is chosen in the end is compiled and fits, or does not."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PipelineDecision:
    """What was chosen, and why.

    Attributes:
        stages: Stage of each call of a layer, in the order of the calls.
        replicas: Copies of the pipeline.
        schedule: In which order stages run.
        recompute: Whether stages compute activations again.
        gradient_accumulation_steps: Micro-batches of a weight update on each replica.
        program: The pipeline, compiled.
        even: The same IPUs, replicas and options with equally many layers in every stage.
        tried: How many pipelines were compiled.
        reason: Why this one, in words.
    """

    stages: tuple[int, ...]
    replicas: int
    schedule: Schedule
    recompute: bool
    gradient_accumulation_steps: int
    program: PipelineProgram
    even: PipelineProgram
    tried: int
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Candidate:
    """A pipeline that was compiled."""

    stages: tuple[int, ...]
    options: PipelineOptions
    program: PipelineProgram

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better: bytes over the limit first, then cycles of a sample."""
        over = max(ipu.memory.overflow_bytes for ipu in self.program.ipus)
        work = self.options.micro_batches * self.options.replicas
        return float(over), self.program.cycles / work


def auto_pipeline(
    model: keras.Model,
    num_ipus: int,
    *,
    batch_size: int,
    replicas: int | None = None,
    gradient_accumulation_steps: int | tuple[int, int] = (1, 64),
    schedules: Sequence[Schedule] = ("grouped", "interleaved"),
    recompute: bool | None = None,
    config: IPUConfig | None = None,
    inputs: Any = None,
    targets: Any = None,
) -> PipelineDecision:
    """Chooses stages for the layers of a model, applies them, and says why.

    The train step of the model is traced once. For every number of stages and replicas that
    together take all IPUs, every schedule, and with and without recomputation, the layers are cut
    where the longest stage is shortest; that cut and the even one are compiled, and what trains
    most samples a second is kept. Cuts are between the calls of layers in their order.

    Nothing runs, and all figures are modelled. The model is left with the chosen pipeline stage
    assignment and pipelining options.

    Args:
        model: A model that was made in the scope of an `IPUStrategy`, and is built.
        num_ipus: IPUs to use, a power of two from 2 on.
        batch_size: Samples of a micro-batch.
        replicas: Copies of the pipeline; None to choose.
        gradient_accumulation_steps: Micro-batches of a weight update on each replica, or the least
            and the most of them; the most that the schedule runs is taken.
        schedules: Schedules to choose from.
        recompute: Whether activations are computed again; None to choose.
        config: The machine; by default what is configured.
        inputs: As for `ipu_tf.estimate`.
        targets: As for `ipu_tf.estimate`.

    Returns:
        What was chosen.

    Raises:
        TypeError: The model was not made in the scope.
        ValueError: An argument is out of its range, or no pipeline is within the bounds.
        IPUOutOfMemoryError: No pipeline that was tried fits; the error is that of the closest.

    Example:
        >>> decision = ipu_tf.keras.auto_pipeline(model, 4, batch_size=8)
        >>> print(decision.reason)
    """
    if not isinstance(model, PipelineExtensions):
        raise TypeError(
            "`auto_pipeline` takes a Keras model that was made in the scope of an IPUStrategy. "
            f"Received: {type(model).__name__}."
        )
    bounds = _bounds(gradient_accumulation_steps)
    _check_ipus(num_ipus, replicas)
    leaves = model._layer_graph().leaves
    step, notes = trace_training(
        model, batch_size=batch_size, config=config, inputs=inputs, targets=targets
    )
    search = _Search(model.name, step, leaves, bounds)
    found: list[tuple[_Candidate, _Candidate]] = []
    for copies in _replicas(num_ipus, replicas, len(leaves)):
        for schedule in schedules:
            for again in (False, True) if recompute is None else (recompute,):
                found += search.candidates(num_ipus // copies, copies, schedule, again)
    if not found:
        raise ValueError(
            f"No pipeline of model '{model.name}' runs on {num_ipus} IPUs with {bounds[0]} to "
            f"{bounds[1]} micro-batches an update, cut between {len(leaves)} layers. Allow more "
            "micro-batches, or use fewer IPUs. Received: "
            f"gradient_accumulation_steps={gradient_accumulation_steps!r}, schedules={schedules!r}."
        )
    best, even = min(found, key=lambda pair: pair[0].rank)
    check_memory(best.program, "raise")
    _apply(model, best)
    return PipelineDecision(
        stages=best.stages,
        replicas=best.options.replicas,
        schedule=best.options.schedule,
        recompute=best.options.recompute,
        gradient_accumulation_steps=best.options.micro_batches,
        program=best.program,
        even=even.program,
        tried=search.tried,
        reason=_reason(model.name, best, even, leaves, search.tried, notes),
    )


class _Search:
    """Compiles pipelines of one step."""

    def __init__(
        self, model: str, step: TracedStep, leaves: Sequence[Invocation], bounds: tuple[int, int]
    ) -> None:
        self._model, self._step, self._bounds = model, step, bounds
        self._paths = [leaf.path for leaf in leaves]
        self._options = dataclasses.replace(step.options, out_of_memory="report")
        self._module = simplify(step.module)
        self._tried = 0
        self._figures: LayerFigures = layer_figures(
            self._module, self._by_path(range(len(leaves))), self._options, step.plans
        )

    @property
    def tried(self) -> int:
        """How many pipelines were compiled."""
        return self._tried

    def candidates(
        self, stages: int, replicas: int, schedule: Schedule, recompute: bool
    ) -> Iterator[tuple[_Candidate, _Candidate]]:
        """Yields the better of the balanced and the even cut, with the even one, if any runs."""
        depth = schedule_depth(_SCHEDULES[schedule], tuple(range(stages)), training=True)
        least, most = self._bounds
        micro_batches = most // depth * depth
        if micro_batches < max(1, least):
            return
        target = self._options.target
        system = dataclasses.replace(system_of(target.chip, stages * replicas), target=target)
        wanted = Wanted(
            stages=stages,
            schedule=schedule,
            recompute=recompute,
            chip_bytes=int(_FOR_LAYERS * target.tiles * target.tile_bytes),
            cycles_per_byte=cycles_per_byte(system),
        )

        def compiled(cut: tuple[int, ...]) -> _Candidate:
            options = PipelineOptions(
                stage_of_layers=self._by_path(cut),
                schedule=schedule,
                micro_batches=micro_batches,
                recompute=recompute,
                replicas=replicas,
            )
            return self._compile(cut, options)

        even = compiled(even_stages(len(self._paths), stages))
        cut = balanced_stages(self._figures, wanted)
        balanced = even if cut == even.stages else compiled(cut)
        yield min(balanced, even, key=lambda candidate: candidate.rank), even

    def _by_path(self, values: Sequence[int]) -> dict[str, int]:
        """Returns a number of each call of a layer by the path of the layer, its first."""
        by_path: dict[str, int] = {}
        for path, value in zip(self._paths, values, strict=True):
            by_path.setdefault(path, value)
        return as_programs_name_them(by_path, self._model)

    def _compile(self, cut: tuple[int, ...], options: PipelineOptions) -> _Candidate:
        step = self._step
        program = build_pipeline(
            self._module, self._options, options, step.plans, step.samples_per_run
        )
        self._tried += 1
        return _Candidate(stages=cut, options=options, program=program)


def _bounds(steps: int | tuple[int, int]) -> tuple[int, int]:
    """Returns the least and the most micro-batches.

    Raises:
        ValueError: They are no such bounds.
    """
    least, most = (steps, steps) if isinstance(steps, int) else steps
    if not 1 <= least <= most:
        raise ValueError(
            "`gradient_accumulation_steps` must be a positive int, or the least and the most of "
            f"them. Received: {steps!r}."
        )
    return least, most


def _check_ipus(num_ipus: Any, replicas: Any) -> None:
    """Checks the numbers of IPUs and replicas.

    Raises:
        ValueError: They are no powers of two, or there is less than two IPUs for a replica.
    """
    for name, value, least in (("num_ipus", num_ipus, 2), ("replicas", replicas or 1, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"`{name}` must be an int of at least {least}. Received: {value!r}.")
        if value & (value - 1):
            raise ValueError(
                f"`{name}` must be a power of two, as IPUs are handed out. Received: {value!r}."
            )
    if (replicas or 1) * 2 > num_ipus:
        raise ValueError(
            f"{replicas} pipelines of two IPUs or more need {2 * replicas} IPUs. Use fewer "
            f"replicas. Received: num_ipus={num_ipus!r}, replicas={replicas!r}."
        )


def _replicas(num_ipus: int, wanted: int | None, layers: int) -> list[int]:
    """Returns the numbers of replicas whose pipelines have at most a stage a layer."""
    every = [1 << power for power in range(num_ipus.bit_length() - 1)]
    return [n for n in every if wanted in (None, n) and num_ipus // n <= layers]


def _apply(model: PipelineExtensions, chosen: _Candidate) -> None:
    """Sets the stages of a model, and the options that were chosen; it keeps its others."""
    mode = RecomputationMode.RecomputeAndBackpropagateInterleaved
    model._pipelining_options = dataclasses.replace(
        model._pipelining_options,
        steps_per_replica=chosen.options.micro_batches,
        device_mapping=None,
        pipeline_schedule=_SCHEDULES[chosen.options.schedule],
        recomputation_mode=mode if chosen.options.recompute else RecomputationMode.Auto,
    )
    model._keep_stages(model._layer_graph(), chosen.stages)


def _reason(
    model: str,
    best: _Candidate,
    even: _Candidate,
    leaves: Sequence[Invocation],
    tried: int,
    notes: Sequence[str],
) -> str:
    program, options = best.program, best.options
    again = "recomputation" if options.recompute else "no recomputation"
    limit = program.limiting_stage
    starts = [leaves[best.stages.index(stage)].path for stage in range(options.stages)]
    fullest = max(int(ipu.memory.peak_tile_bytes.max()) for ipu in program.ipus)
    lines = [
        f"Model '{model}': {options.replicas} x {options.stages} IPUs, {options.schedule} "
        f"schedule, {again}, {options.micro_batches} micro-batches an update: "
        f"{_speed(best)}; the best of {tried} that were compiled.",
        f"Equally many layers in every stage: {_speed(even)}.",
        f"Stages begin at {', '.join(starts)}.",
        f"Limited by stage {limit.index}: {limit.micro_batch_cycles:,} cycles a micro-batch; "
        f"bubble {percent(program.timeline.bubble_share)}; the fullest tile has {fullest:,} of "
        f"{program.target.tile_bytes:,} bytes.",
        *(f"Note: {note}." for note in notes),
    ]
    return "\n".join(lines)


def _speed(candidate: _Candidate) -> str:
    speed = samples_per_second(candidate.program)
    figure = f"{candidate.rank[1]:,.0f} cycles a micro-batch"
    if speed is not None:
        figure = f"{speed:,.1f} samples/s"
    return figure if candidate.program.fits else f"{figure}, but it does not fit"
