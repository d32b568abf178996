"""The options of a pipeline: the order of its stages, recomputation, options of stages."""

from __future__ import annotations

import contextlib
import enum
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ipu_tf.compiler.pipeline.schedule import schedule_depth
from ipu_tf.compiler.recomputation import marks
from ipu_tf.config.poplar_options import PlannerOverrides, keys_without_effect
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.planner.shapes import Family
from ipu_tf.planner.stage_planning import StagePlanning
from ipu_tf.tile_program.device_program import Schedule

logger = logging.getLogger(__name__)


class PipelineSchedule(enum.Enum):
    """The order in which the stages of different micro-batches run.

    Grouped runs the forward passes of all stages at once, then all backward passes. Interleaved
    alternates forward and backward passes, with less to stash. Sequential runs one micro-batch at a
    time.
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2


SCHEDULES: Mapping[Schedule, PipelineSchedule] = {
    "grouped": PipelineSchedule.Grouped,
    "interleaved": PipelineSchedule.Interleaved,
    "sequential": PipelineSchedule.Sequential,
}
"""Schedules by the compiler's name."""

_NAMES = {schedule: name for name, schedule in SCHEDULES.items()}


def schedule_name(schedule: PipelineSchedule) -> Schedule:
    """Returns the compiler's name of a schedule."""
    return _NAMES[schedule]


def check_depth(
    schedule: PipelineSchedule,
    ipus: Sequence[int],
    count: int,
    *,
    training: bool,
    argument: str,
    subject: str,
) -> None:
    """Checks that the micro-batches of an execution fill a pipeline.

    Args:
        schedule: The order of its stages.
        ipus: IPU of each stage.
        count: The micro-batches.
        training: Whether weights are updated.
        argument: Name of the argument that sets the number.
        subject: The pipeline, as the object of "the stages of".

    Raises:
        tf.errors.FailedPreconditionError: They do not.
    """
    depth = schedule_depth(schedule_name(schedule), ipus, training=training)
    if count % depth == 0 and count >= depth:
        return
    raise tf.errors.FailedPreconditionError(
        None,
        None,
        f"The number of iterations of the pipeline must be a multiple of {depth} (so at least "
        f"{depth}): the {schedule.name} schedule {'trains' if training else 'runs'} the "
        f"{len(ipus)} stages of {subject} on so many micro-batches at a time. Change "
        f"`{argument}`, or use another `pipeline_schedule`. Received: {argument}={count}.",
    )


NEEDED_OPTIONS: Mapping[str, str] = {
    "offload_weights": "replicated_weight_sharding",
    "weight_replicas": "replicated_weight_sharding",
    "optimizer_state_replicas": "replicated_optimizer_state_sharding",
}
"""The options of pipelines that do nothing alone, with the option that each of them needs."""


def warn_about_idle_options(options: Mapping[str, object], subject: str) -> None:
    """Logs a warning for each option that is set and does nothing without another.

    Args:
        options: Options of a pipeline by name.
        subject: The pipeline, as the beginning of the warning.
    """
    for name, requirement in NEEDED_OPTIONS.items():
        if options.get(name) and not options.get(requirement):
            logger.warning(
                "%s: `%s=%r` does nothing without `%s=True`: set both, or neither.",
                subject,
                name,
                options[name],
                requirement,
            )


class RecomputationMode(enum.Enum):
    """How the backward pass of a stage gets the activations of its forward pass.

    Auto leaves it to the configuration and the schedule. RecomputeThenBackpropagate recomputes a
    whole stage, then runs its backward pass. RecomputeAndBackpropagateInterleaved recomputes from
    checkpoint to checkpoint.
    """

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


@dataclass(frozen=True)
class PipelineStageOptions:
    """Options of the operations of one stage, by the names that the machine's libraries use.

    Attributes:
        convolution_options: Options of convolutions.
        matmul_options: Options of matrix products.
        slice_options: Options of lookups.
    """

    convolution_options: Mapping[str, str] | None = None
    matmul_options: Mapping[str, str] | None = None
    slice_options: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name in ("convolution_options", "matmul_options", "slice_options"):
            options = getattr(self, name) or {}
            if not isinstance(options, Mapping) or not all(
                isinstance(part, str) for item in options.items() for part in item
            ):
                raise TypeError(
                    f"`{name}` must map names of options to their values, both strings. "
                    f"Received: {options!r}."
                )
            object.__setattr__(self, name, dict(options))

    def overrides(self, path: str) -> dict[Family, PlannerOverrides]:
        """Returns what they say of the planners.

        Args:
            path: The argument that they were given as, for messages.

        Raises:
            ValueError: A value of the planners is unknown or out of its range.
        """
        options_of_families: dict[Family, tuple[str, Mapping[str, str]]] = {
            "matmul": (f"{path}.matmul_options", self.matmul_options or {}),
            "conv": (f"{path}.convolution_options", self.convolution_options or {}),
        }
        idle = [
            key
            for name, options in options_of_families.values()
            for key in keys_without_effect(options, name)
        ]
        idle += [f"{path}.slice_options[{key!r}]" for key in self.slice_options or {}]
        if idle:
            logger.info("These options have no effect: %s.", ", ".join(idle))
        return {
            family: PlannerOverrides.of(options, name)
            for family, (name, options) in options_of_families.items()
            if options
        }


def planning_of_stages(
    forward: Sequence[PipelineStageOptions] | None,
    backward: Sequence[PipelineStageOptions] | None,
    stages: int,
) -> tuple[StagePlanning, ...] | None:
    """Returns what the options of each stage say of the planners, None if there are none.

    Args:
        forward: `forward_propagation_stages_poplar_options`, of one entry a stage, or None.
        backward: `backward_propagation_stages_poplar_options`, the same.
        stages: The number of stages.

    Raises:
        ValueError: A value is unknown or out of its range.
    """
    passes: dict[str, list[dict[Family, PlannerOverrides]]] = {}
    for name, options in (("forward", forward), ("backward", backward)):
        path = f"{name}_propagation_stages_poplar_options"
        passes[name] = [
            {} if options is None else options[stage].overrides(f"{path}[{stage}]")
            for stage in range(stages)
        ]
    if not any(any(of_pass) for of_pass in passes.values()):
        return None
    pairs = zip(passes["forward"], passes["backward"], strict=True)
    return tuple(StagePlanning(forward=ahead, backward=back) for ahead, back in pairs)


@tf.autograph.experimental.do_not_convert
def recomputation_checkpoint(tensors: TensorStructure, name: str | None = None) -> TensorStructure:
    """Returns the tensors; a program keeps them in memory when it recomputes activations.

    Args:
        tensors: A tensor, or a structure of tensors.
        name: Name of the scope of the operations.
    """
    with tf.name_scope(name) if name else contextlib.nullcontext():
        return tf.nest.map_structure(
            lambda tensor: tf.identity(tensor, name=marks.CHECKPOINT), tensors
        )
