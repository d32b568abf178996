"""`auto_pipeline`: chooses how a model trains on several IPUs by modelled cycles and memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ipu_tf import config as configuration
from ipu_tf import utils
from ipu_tf.compiler.compile import check_memory
from ipu_tf.compiler.pipeline.candidate import PipelineCandidate
from ipu_tf.compiler.pipeline.search import PipelinedCall, PipelineSearch, SearchResult
from ipu_tf.compiler.pipeline.search_bounds import Bounds
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.config import DeviceConfiguration, IPUConfig
from ipu_tf.config.resolve import resolve
from ipu_tf.internals.structures import SpecStructure
from ipu_tf.keras.adapters.graphs import GraphModel
from ipu_tf.keras.deployment import reasons
from ipu_tf.keras.deployment.device_pipeline import offload_of, offload_without_stages
from ipu_tf.keras.deployment.model_pipeline import assign_stages, layer_graph, remove_stages
from ipu_tf.keras.options import GradientAccumulationOptions, RecomputationOptions
from ipu_tf.keras.pipeline.layer_graph import Invocation
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.keras.steps.step_tracing import trace_training
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.ops.pipelining_ops import SCHEDULES, RecomputationMode
from ipu_tf.tile_program.device_program import DeviceProgram, Schedule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PipelineDecision:
    """The chosen configuration and the reason; as a string, the reason and a table of candidates.

    Attributes:
        candidates: All compiled candidates: the chosen one first, then the others by rank.
        program: The compiled program of the chosen candidate.
        even: The best candidate with the same number of layers in every stage, compiled.
        reason: The reason for the choice, in words.
    """

    candidates: tuple[PipelineCandidate, ...]
    program: DeviceProgram
    even: DeviceProgram
    reason: str

    @property
    def chosen(self) -> PipelineCandidate:
        """The figures of the chosen candidate."""
        return self.candidates[0]

    @property
    def stages(self) -> tuple[int, ...]:
        """Stage of each call of a layer, in the order of the calls."""
        return self.chosen.stages

    @property
    def replicas(self) -> int:
        """Copies of the pipeline, or of the model if it runs on one IPU."""
        return self.chosen.options.replicas

    @property
    def schedule(self) -> Schedule:
        """The order in which stages run."""
        return self.chosen.options.schedule

    @property
    def recompute(self) -> bool:
        """Whether stages recompute activations."""
        return self.chosen.options.recompute

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Layers after which activations are kept while others are recomputed."""
        return self.chosen.options.checkpoints

    @property
    def gradient_accumulation_steps(self) -> int:
        """Micro-batches of a weight update on each replica."""
        return self.chosen.options.micro_batches

    def __str__(self) -> str:
        return "\n".join([self.reason, "", *reasons.comparison(self.candidates)])


def auto_pipeline(
    model: GraphModel,
    num_ipus: int,
    *,
    batch_size: int,
    replicas: int | None = None,
    gradient_accumulation_steps: int | tuple[int, int] = (1, 64),
    schedules: Sequence[Schedule] = ("grouped", "interleaved"),
    recompute: bool | None = None,
    config: IPUConfig | None = None,
    inputs: SpecStructure = None,
    targets: SpecStructure = None,
) -> PipelineDecision:
    """Chooses how a model trains on several IPUs, applies it, and gives the reason.

    The model's train step is traced and compiled for each candidate. The candidates are the whole
    model on every IPU and, for every number of stages and replicas that together use all IPUs,
    every schedule with and without recomputation. Each of these cuts the layers once so that the
    longest stage is shortest, and once evenly. The fastest candidates that do not fit also get the
    checkpoints with which they lose the fewest cycles. Of the candidates that fit, the one that
    trains the most samples a second is applied. Cuts lie between the calls of layers in their order
    and keep layers with shared weights together.

    Nothing runs, and all figures are modelled. The model gets the chosen stages and options; if
    one IPU holds all of it, it gets no stages and accumulates gradients. Its other options of
    pipelining or accumulation stay.

    Args:
        model: A model that was made in the scope of an `IPUStrategy`, and is built.
        num_ipus: IPUs to use, a power of two. The device should have as many.
        batch_size: Samples of a micro-batch.
        replicas: Copies of the pipeline; None to choose.
        gradient_accumulation_steps: Micro-batches of a weight update on each replica, or the least
            and the most of them: the search tries the most that a schedule runs and, where one
            batch can make an update, a single one.
        schedules: Schedules to choose from.
        recompute: Whether activations are recomputed; None to choose. They always are if
            `allow_recompute` of the configuration is set.
        config: The machine; by default the current configuration.
        inputs: As for `ipu_tf.estimate`.
        targets: As for `ipu_tf.estimate`.

    Returns:
        The decision.

    Raises:
        TypeError: The model was not made in the scope.
        ValueError: An argument is out of its range, or no candidate is within the bounds.
        IPUOutOfMemoryError: No candidate fits; the error is that of the closest.

    Example:
        >>> decision = ipu_tf.keras.auto_pipeline(model, 4, batch_size=8)
        >>> print(decision)
    """
    if not isinstance(model, StatefulModel):
        raise TypeError(
            "`auto_pipeline` takes a Keras model that was made in the scope of an IPUStrategy. "
            f"Received: {type(model).__name__}."
        )
    device = configuration.device_configuration() if config is None else resolve(config)
    _check_ipus(num_ipus, replicas)
    bounds = Bounds(
        ipus=num_ipus,
        replicas=replicas,
        micro_batches=_steps(gradient_accumulation_steps),
        schedules=_schedules(schedules),
        recompute=_recompute(recompute, device),
    )
    calls, keeps = layer_graph(model).layer_invocations, accumulation_to_keep(model)
    notes: list[str] = []

    def trace(micro_batches: int) -> TracedStep:
        accumulation = dataclasses.replace(keeps, steps_per_replica=micro_batches)
        step, assumption = trace_training(
            model,
            batch_size=batch_size,
            config=config,
            inputs=inputs,
            targets=targets,
            accumulation=accumulation,
        )
        notes.extend(note for note in assumption if note not in notes)
        return step

    result = PipelineSearch(
        model.name,
        [_layer_call(call) for call in calls],
        trace,
        offload=offload_of(_with_accumulation(model.ipu_training_state.pipelining, keeps)),
        offload_whole=offload_without_stages(keeps),
    ).run(bounds)
    if result is None:
        raise ValueError(
            f"Model '{model.name}' cannot train on {num_ipus} IPUs within the bounds: none of the "
            f"schedules runs {bounds.micro_batches[0]} to {bounds.micro_batches[1]} micro-batches "
            f"an update, cut between {len(calls)} layers. Allow more micro-batches or replicas, "
            f"or use fewer IPUs. Received: replicas={replicas!r}, schedules={schedules!r}, "
            f"gradient_accumulation_steps={gradient_accumulation_steps!r}."
        )
    check_memory(result.best.program, "raise")
    _apply(model, result.candidates[0])
    return PipelineDecision(
        candidates=result.candidates,
        program=result.best.program,
        even=result.even.program,
        reason=_reason(model, result, calls, (*notes, *_about_device(model, num_ipus))),
    )


def _layer_call(call: Invocation) -> PipelinedCall:
    """Returns a call of a layer as the search takes it."""
    return PipelinedCall(path=call.path, weights=frozenset(map(id, call.layer.variables)))


def _steps(steps: int | tuple[int, int]) -> tuple[int, int]:
    """Returns the least and the most micro-batches.

    Raises:
        ValueError: They are not valid bounds.
    """
    least, most = (steps, steps) if isinstance(steps, int) else steps
    if not 1 <= least <= most:
        raise ValueError(
            "`gradient_accumulation_steps` must be a positive int, or a pair of the least and "
            f"the most steps. Received: {steps!r}."
        )
    return least, most


def _check_ipus(num_ipus: int, replicas: int | None) -> None:
    """Checks the numbers of IPUs and replicas.

    Raises:
        ValueError: They are not powers of two, or there are more replicas than IPUs.
    """
    for name, value in (("num_ipus", num_ipus), ("replicas", 1 if replicas is None else replicas)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"`{name}` must be a positive int. Received: {value!r}.")
        if value & (value - 1):
            raise ValueError(
                f"`{name}` must be a power of two: devices have 1, 2, 4, ... IPUs. Received: "
                f"{value!r}."
            )
    if (replicas or 1) > num_ipus:
        raise ValueError(
            f"Every replica takes at least one IPU. Use fewer replicas. "
            f"Received: num_ipus={num_ipus!r}, replicas={replicas!r}."
        )


def _schedules(schedules: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """Returns the schedules to choose from.

    Raises:
        ValueError: There are none, or one is unknown.
    """
    names = tuple(SCHEDULES)
    if isinstance(schedules, str) or not schedules or not set(schedules) <= set(names):
        raise ValueError(
            f"`schedules` must list some of {', '.join(map(repr, names))}. Received: {schedules!r}."
        )
    return tuple(schedules)


def _recompute(option: bool | None, device: DeviceConfiguration) -> tuple[bool, ...]:
    """Returns the values to try for whether stages recompute activations.

    Raises:
        ValueError: Recomputation is ruled out, but the configuration requires it.
    """
    if not device.allow_recompute:
        return (False, True) if option is None else (option,)
    if option is False:
        raise ValueError(
            "`allow_recompute` of the configuration makes all pipelines recompute activations. "
            "Set it to False to train without recomputation. Received: recompute=False."
        )
    return (True,)


def _about_device(model: StatefulModel, num_ipus: int) -> tuple[str, ...]:
    """Returns a note where the model's device has another number of IPUs."""
    device = model.distribute_strategy.extended.worker_devices[0]
    ipus = utils.get_num_of_ipus_in_device(device)
    if ipus == num_ipus:
        return ()
    return (
        f"the device has {ipus} IPUs: set `auto_select_ipus` to {num_ipus} to train with this "
        "decision",
    )


def _apply(model: StatefulModel, candidate: PipelineCandidate) -> None:
    """Sets the chosen stages and options of a model; its other options stay."""
    options = candidate.options
    accumulation = dataclasses.replace(
        accumulation_to_keep(model), steps_per_replica=options.micro_batches
    )
    state = model.ipu_training_state
    if candidate.options.checkpoints:
        recomputation = RecomputationOptions(
            recompute=True, checkpoints=candidate.options.checkpoints
        )
        state = dataclasses.replace(state, recomputation=recomputation)
    if candidate.split == "whole":
        model.ipu_training_state = dataclasses.replace(state, accumulation=accumulation)
        remove_stages(model)
        return
    mode = RecomputationMode.RecomputeAndBackpropagateInterleaved
    pipelining = dataclasses.replace(
        _with_accumulation(state.pipelining, accumulation),
        device_mapping=None,
        pipeline_schedule=SCHEDULES[options.schedule],
        recomputation_mode=mode if options.recompute else RecomputationMode.Auto,
    )
    model.ipu_training_state = dataclasses.replace(state, pipelining=pipelining)
    assign_stages(model, layer_graph(model), candidate.stages)


def _with_accumulation(
    options: PipeliningOptions, accumulation: GradientAccumulationOptions
) -> PipeliningOptions:
    """Returns pipeline options with the accumulation options of a model without stages."""
    return dataclasses.replace(
        options,
        steps_per_replica=accumulation.steps_per_replica,
        reduction_method=accumulation.reduction_method,
        gradient_accumulation_dtype=accumulation.dtype,
        offload_weight_update_variables=accumulation.offload_weight_update_variables,
        replicated_optimizer_state_sharding=accumulation.replicated_optimizer_state_sharding,
    )


def accumulation_to_keep(model: StatefulModel) -> GradientAccumulationOptions:
    """Returns the model's accumulation options: its pipeline's if it may be pipelined or has no
    others, so that the numbers of training do not depend on the choice."""
    state = model.ipu_training_state
    if state.may_pipeline(model) or state.accumulation == GradientAccumulationOptions():
        return state.pipelining.accumulation
    return state.accumulation


def _reason(
    model: StatefulModel,
    result: SearchResult,
    calls: Sequence[Invocation],
    notes: Sequence[str],
) -> str:
    best = result.candidates[0]
    begins = [calls[best.stages.index(stage)].path for stage in range(best.options.stages)]
    return reasons.reason(
        model.name,
        result.candidates,
        even=result.even.candidate,
        begins=begins,
        notes=notes,
    )
