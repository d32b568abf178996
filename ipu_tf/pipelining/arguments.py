"""The arguments of `pipeline`, as a checked value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import tensorflow as tf

from ipu_tf.base import trial
from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.internals.structures import DType
from ipu_tf.ops.pipelining_ops import (
    PipelineSchedule,
    PipelineStageOptions,
    RecomputationMode,
    check_depth,
    planning_of_stages,
    warn_about_idle_options,
)
from ipu_tf.planner.stage_planning import StagePlanning

DtypeOption: TypeAlias = "tf.DType | str | Callable[[tf.Variable], DType | None] | None"
"""A type, its name, a function from a tensor or variable to one of these, or None."""

_FLAGS = (
    "offload_weight_update_variables",
    "offload_activations",
    "offload_gradient_accumulation_buffers",
    "replicated_weight_sharding",
    "offload_weights",
)
_SUBJECT = "the pipeline"
_SEVERAL_IPUS = -1
"""Stands for the IPUs of a stage of several functions where a schedule counts passes."""


@dataclass(frozen=True, kw_only=True)
class PipelineArguments:
    """The arguments of `pipeline` in their final form; its docstring has their meaning.

    Attributes:
        stages: The functions of each stage, most often one.
        ipus: IPU of each function, stage after stage.
        count: Micro-batches of a weight update: an int, or a scalar tensor that the program knows.
        serialization: Micro-batches that each stage runs before the next stage begins.
        planning: What the options of each stage say of the planners; None for nothing.
        update_planning: The same of the weight update.
    """

    stages: tuple[tuple[Callable[..., object], ...], ...]
    count: int | tf.Tensor
    gradient_accumulation_dtype: DtypeOption
    accumulates_captured: bool
    repeat_count: int
    serialization: int
    optimizer_function: Callable[..., object] | None
    ipus: tuple[int, ...]
    schedule: PipelineSchedule
    recomputation_mode: RecomputationMode
    offload_weight_update_variables: bool | None
    replicated_optimizer_state_sharding: bool
    offload_activations: bool | None
    offload_gradient_accumulation_buffers: bool | None
    replicated_weight_sharding: bool | None
    offload_weights: bool | None
    outfeed_loss: bool
    accumulate_outfeed: bool
    accumulate_outfeed_dtype: DtypeOption
    outfeed_mask: tuple[bool, ...] | None
    reduction_method: Method
    planning: tuple[StagePlanning, ...] | None
    update_planning: StagePlanning | None

    @property
    def training(self) -> bool:
        """Whether weights are updated."""
        return self.optimizer_function is not None

    @property
    def micro_batches(self) -> int | tf.Tensor:
        """Micro-batches of an execution of the pipeline."""
        return self.count * self.serialization

    @property
    def static_count(self) -> int | None:
        """The number of micro-batches of an update before serialization, None if data decides."""
        if isinstance(self.count, int):
            return self.count
        value = tf.get_static_value(self.count)
        return None if value is None else int(value)

    def check_depth(self) -> None:
        """Checks that the micro-batches fill the schedule, where their number is known.

        Raises:
            tf.errors.FailedPreconditionError: They do not.
        """
        count = self.static_count
        if count is not None:
            ipus = iter(self.ipus)
            ipus_of_stages = [[next(ipus) for _ in functions] for functions in self.stages]
            check_depth(
                self.schedule,
                [
                    of_stage[0] if len(of_stage) == 1 else _SEVERAL_IPUS
                    for of_stage in ipus_of_stages
                ],
                count,
                training=self.training,
                argument="gradient_accumulation_count",
                subject=_SUBJECT,
            )


def checked(
    *,
    computational_stages: object,
    gradient_accumulation_count: object,
    repeat_count: object,
    batch_serialization_iterations: object,
    optimizer_function: object,
    device_mapping: object,
    pipeline_schedule: object,
    recomputation_mode: object,
    stage_options: dict[str, object],
    weight_update_options: object,
    flags: dict[str, object],
    sharding: object,
    continuous_weight_updates: object,
    outfeed_loss: bool,
    outfeed_mask: object,
    reduction_method: object,
    **further: object,
) -> PipelineArguments:
    """Returns the checked arguments; those of the feeds are checked elsewhere.

    Raises:
        NotImplementedError: The machine has no such pipeline.
        TypeError: An argument is of another type.
        ValueError: An argument is out of its range.
    """
    count = _count(gradient_accumulation_count)
    if continuous_weight_updates:
        raise NotImplementedError(
            "Continuous weight updates are not supported: weights are updated once for all "
            "micro-batches of a pipeline. Received: continuous_weight_updates=True."
        )
    serialization = _positive("batch_serialization_iterations", batch_serialization_iterations)
    stages = _stages(computational_stages)
    method = Method.parse(reduction_method)
    schedule = _schedule(pipeline_schedule, serialization)
    ipus = _ipus(device_mapping, stages, serialization)
    _check_serialization(serialization, schedule, ipus, method)
    training = optimizer_function is not None
    if training and schedule is PipelineSchedule.Interleaved and len(set(ipus)) < len(ipus):
        raise NotImplementedError(
            "The pipelining schedule Interleaved trains one stage on an IPU. Use "
            f"PipelineSchedule.Grouped or Sequential. Received: device_mapping={list(ipus)}."
        )
    forward, backward = (
        _stage_options(name, stage_options.get(name), len(stages))
        for name in (
            "forward_propagation_stages_poplar_options",
            "backward_propagation_stages_poplar_options",
        )
    )
    planning = planning_of_stages(forward, backward, len(stages))
    _check_flags({**flags, "replicated_optimizer_state_sharding": sharding})
    warn_about_idle_options(flags, "The pipeline")
    maker: Callable[..., PipelineArguments] = PipelineArguments
    return maker(
        stages=stages,
        count=count,
        repeat_count=_repeats(_positive("repeat_count", repeat_count), count, serialization),
        serialization=serialization,
        optimizer_function=optimizer_function,
        ipus=ipus,
        schedule=schedule,
        recomputation_mode=_recomputation(recomputation_mode),
        replicated_optimizer_state_sharding=bool(sharding),
        outfeed_loss=bool(outfeed_loss),
        outfeed_mask=_mask(outfeed_mask, outfeed_loss, training=training),
        reduction_method=method,
        planning=planning,
        update_planning=_update_planning(weight_update_options),
        **flags,
        **further,
    )


def _count(count: Any) -> int | tf.Tensor:
    name = "gradient_accumulation_count"
    if count is None:
        raise ValueError(f"{name} must be specified: the micro-batches of a weight update.")
    if isinstance(count, tf.Tensor):
        if not count.dtype.is_integer or count.shape.rank != 0:
            raise TypeError(f"{name} must be an integer or a scalar tensor. Received: {count!r}.")
        return tf.cast(count, tf.int32)
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"{name} must be an integer. Received: {count!r}.")
    if count < 0:
        raise ValueError(f"{name} must be >= 0. Received: {count}.")
    if count > np.iinfo(np.int32).max:
        raise ValueError(f"{name} must be < max int32. Received: {count}.")
    return int(count)


def _repeats(repeats: int, count: int | tf.Tensor, serialization: int) -> int:
    """Returns the weight updates of a run, fewer while a script is tried out."""
    of_update = serialization * (max(1, count) if isinstance(count, int) else 1)
    return trial.limited_steps(repeats * of_update, of_update=of_update) // of_update


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}.")
    return int(value)


def _stages(stages: Any) -> tuple[tuple[Callable[..., Any], ...], ...]:
    if not isinstance(stages, list | tuple):
        raise TypeError(
            f"`computational_stages` must be a list or a tuple of functions. Received: {stages!r}."
        )
    if len(stages) < 2:
        raise ValueError(
            f"Pipeline requires at least two computational stages. Received: {len(stages)}."
        )
    nested = tuple(
        tuple(stage) if isinstance(stage, list | tuple) else (stage,) for stage in stages
    )
    for number, functions in enumerate(nested):
        if not functions or not all(map(callable, functions)):
            raise TypeError(
                f"Stage {number} of `computational_stages` must be a function of the previous "
                "stage's results, or a list of such functions for several IPUs. "
                f"Received: {stages[number]!r}."
            )
    return nested


def _schedule(schedule: Any, serialization: int) -> PipelineSchedule:
    if schedule is None:
        return PipelineSchedule.Sequential if serialization > 1 else PipelineSchedule.Grouped
    if not isinstance(schedule, PipelineSchedule):
        raise TypeError(f"`pipeline_schedule` must be a PipelineSchedule. Received: {schedule!r}.")
    return schedule


def _recomputation(mode: Any) -> RecomputationMode:
    if mode is None:
        return RecomputationMode.Auto
    if not isinstance(mode, RecomputationMode):
        raise TypeError(f"`recomputation_mode` must be a RecomputationMode. Received: {mode!r}.")
    return mode


def _ipus(
    mapping: Any, stages: Sequence[Sequence[Callable[..., Any]]], serialization: int
) -> tuple[int, ...]:
    """Returns the IPU of each function, stage after stage; serialized stages share one."""
    if mapping is None and all(len(functions) == 1 for functions in stages):
        return (0,) * len(stages) if serialization > 1 else tuple(range(len(stages)))
    if not isinstance(mapping, list | tuple):
        raise TypeError(
            "The device_mapping argument needs to be a list or a tuple; it is optional only where "
            f"every stage is one function. Received: {mapping!r}."
        )
    if len(mapping) != len(stages):
        raise ValueError(
            f"Each stage must be mapped to an IPU: there are {len(stages)} stages. "
            f"Received: device_mapping={list(mapping)}."
        )
    nested = [ipus if isinstance(ipus, list | tuple) else [ipus] for ipus in mapping]
    for number, (ipus, functions) in enumerate(zip(nested, stages, strict=True)):
        if len(ipus) != len(functions):
            raise ValueError(
                f"Stage {number} has {len(functions)} functions, and `device_mapping` must hold a "
                f"list of as many IPUs for it. Received: {mapping[number]!r}."
            )
    flat = [ipu for ipus in nested for ipu in ipus]
    if any(isinstance(ipu, bool) or not isinstance(ipu, int | np.integer) for ipu in flat):
        raise TypeError(
            "`device_mapping` must hold the number of the IPU of each stage, or a list of them for "
            f"a stage of several functions. Received: {list(mapping)}."
        )
    if min(flat) < 0:
        raise ValueError(
            "`device_mapping` must hold numbers of IPUs from 0 on. A stage over all IPUs is not "
            f"simulated. Received: {list(mapping)}."
        )
    return tuple(int(ipu) for ipu in flat)


def _check_serialization(
    serialization: int, schedule: PipelineSchedule, ipus: Sequence[int], method: Method
) -> None:
    if serialization == 1:
        return
    if method is not Method.SUM:
        raise ValueError(
            "batch_serialization_iterations != 1 is only supported when reduction_method is "
            f"GradientAccumulationReductionMethod.SUM. Received: reduction_method={method}."
        )
    if schedule is not PipelineSchedule.Sequential:
        raise NotImplementedError(
            "Batch serialization is only supported with the `Sequential` schedule. "
            f"Received: pipeline_schedule={schedule}."
        )
    if len(set(ipus)) > 1:
        raise NotImplementedError(
            "When using batch serialization, all the pipeline stages need to be mapped to a single "
            f"IPU. Received: device_mapping={list(ipus)}."
        )


def _stage_options(
    name: str, options: object, stages: int
) -> Sequence[PipelineStageOptions] | None:
    """Returns the options of stages.

    Raises:
        TypeError: They are no list of options.
        ValueError: They are not one entry a stage.
    """
    if options is None:
        return None
    if not isinstance(options, list | tuple):
        raise TypeError(f"`{name}` must be a list of PipelineStageOptions. Received: {options!r}.")
    if len(options) != stages:
        raise ValueError(
            f"`{name}` must have an entry for each of the {stages} stages. "
            f"Received: {len(options)} entries."
        )
    for option in options:
        _check_options_type(name, option)
    return options


def _update_planning(options: object) -> StagePlanning | None:
    """Returns what options of the weight update say of the planners.

    Raises:
        TypeError: They are none.
        ValueError: A value is unknown or out of its range.
    """
    if options is None:
        return None
    name = "weight_update_poplar_options"
    _check_options_type(name, options)
    return StagePlanning(forward=cast("PipelineStageOptions", options).overrides(name))


def _check_options_type(name: str, options: Any) -> None:
    if not isinstance(options, PipelineStageOptions):
        raise TypeError(
            f"`{name}` must be of type PipelineStageOptions. Received: {options!r} of type "
            f"{type(options).__name__}."
        )


def _check_flags(flags: dict[str, Any]) -> None:
    for name, value in flags.items():
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"`{name}` must be True, False or None. Received: {value!r}.")


def _mask(mask: Any, outfeed_loss: Any, *, training: bool) -> tuple[bool, ...] | None:
    for name, value in (("outfeed_mask", mask), ("outfeed_loss", outfeed_loss)):
        if value and not training:
            raise ValueError(
                f"An optimizer_function must be provided when {name} is set. "
                f"Received: {name}={value!r}, optimizer_function=None."
            )
    if mask and outfeed_loss:
        raise ValueError(
            "Only one of `outfeed_loss` and `outfeed_mask` can be set. "
            f"Received: outfeed_loss={outfeed_loss!r}, outfeed_mask={mask!r}."
        )
    return tuple(bool(masked) for masked in mask) if mask else None


def flags_of(arguments: dict[str, object]) -> dict[str, object]:
    """Returns the options that move data off the tiles, from arguments by their names."""
    return {name: arguments.get(name) for name in _FLAGS}
