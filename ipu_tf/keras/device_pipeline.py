"""Tells the compiler how the steps of a pipelined Keras model are split over IPUs."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.compiler.pipeline import PipelineOptions, Schedule
from ipu_tf.config import device_configuration
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.keras.pipeline.extension import PipelineExtensions
from ipu_tf.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from ipu_tf.runtime import pipelines

SCHEDULES: Mapping[Schedule, PipelineSchedule] = {
    "grouped": PipelineSchedule.Grouped,
    "interleaved": PipelineSchedule.Interleaved,
    "sequential": PipelineSchedule.Sequential,
}
"""Schedules by the compiler's name."""

_NAMES = {schedule: name for name, schedule in SCHEDULES.items()}


def as_programs_name_them(by_path: Mapping[str, int], model: str) -> dict[str, int]:
    """Returns what belongs to layers by every path that a program may name them by.

    Layers of a functional model were called on their own: without weights they know no path, and
    their ops have that of the layer alone.

    Args:
        by_path: Something for each path of a layer.
        model: Name of the model that the paths are within.
    """
    short = {path.removeprefix(f"{model}/"): value for path, value in by_path.items()}
    return {**short, **by_path}


@pipelines.register
def device_pipeline(model: PipelineExtensions, function: str) -> PipelineOptions | None:
    """Returns how a step of a model runs on several IPUs, None for a model without stages.

    A train step runs on the micro-batches of a weight update, other steps on those of an execution.
    Activations are computed again where a mode for that is set, or the configuration says so.

    Args:
        model: The model.
        function: Name of the step, such as "train_step".
    """
    if not isinstance(model.distribute_strategy, IPUStrategy):
        return None
    pipeline = model._pipeline()
    if pipeline is None:
        return None
    options = pipeline.options
    training = function == "train_step"
    steps = options.steps_per_replica if training else model.steps_per_execution
    return PipelineOptions(
        stage_of_layers=as_programs_name_them(pipeline.stage_of_layers, model.name),
        ipu_of_stages=pipeline.ipus,
        schedule=_NAMES[options.pipeline_schedule],
        micro_batches=steps or 1,
        recompute=options.recomputation_mode is not RecomputationMode.Auto
        or device_configuration().allow_recompute,
        replicas=model._replication_factor(),
    )
