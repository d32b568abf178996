"""Describes to the compiler how the steps of a pipelined Keras model are split over IPUs."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.compiler.pipeline.deployment import ALL_ON_TILES, Deployment, Offload, with_short_paths
from ipu_tf.config import device_configuration
from ipu_tf.keras.deployment.model_pipeline import (
    accumulation_of_model,
    pipeline_of_model,
    replicas_on_device,
)
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.ops.pipelining_ops import RecomputationMode, planning_of_stages, schedule_name
from ipu_tf.planner.stage_planning import StagePlanning
from ipu_tf.processes.instances import instances
from ipu_tf.runtime.extraction import deployments
from ipu_tf.strategy import IPUStrategy


@deployments.register
def device_pipeline(model: StatefulModel, function: str) -> Deployment | None:
    """Returns how a step of a model runs on its IPUs, None for a single batch on one IPU.

    A model without stages is a pipeline of one stage if it accumulates gradients or has replicas.
    A train step runs on the micro-batches of a weight update, other steps of a pipeline on those
    of an execution. Activations are recomputed if a recomputation mode or the configuration asks
    for it.

    Args:
        model: The model.
        function: Name of the step, such as "train_step".
    """
    if not isinstance(model.distribute_strategy, IPUStrategy):
        return None
    pipeline = pipeline_of_model(model)
    training = function == "train_step"
    if pipeline is None:
        return _one_stage(model, training=training)
    options = pipeline.options
    steps = options.steps_per_replica if training else model.steps_per_execution
    mode = options.recomputation_mode
    return Deployment(
        stage_of_layers=with_short_paths(pipeline.stage_of_layers, model.name),
        shared_layers=with_short_paths(pipeline.shared_layers, model.name),
        ipu_of_stages=pipeline.ipus,
        schedule=schedule_name(options.pipeline_schedule),
        micro_batches=steps or 1,
        recompute=_recomputes(model, mode),
        checkpoints=model.ipu_training_state.recomputation.checkpoints,
        keeps_checkpoints=mode is not RecomputationMode.RecomputeThenBackpropagate,
        replicas=_replicas_of_job(model),
        offload=offload_of(options),
        may_move_state=options.offload_weight_update_variables is None,
    )


@deployments.register_planning
def stage_planning(model: StatefulModel) -> Mapping[str, StagePlanning] | None:
    """Returns what the options of a model's stages say of the planners, None if they say nothing.

    Raises:
        ValueError: There is not one entry a stage, or a value is unknown or out of its range.
    """
    options = model.ipu_training_state.pipelining
    passes = (
        options.forward_propagation_stages_poplar_options,
        options.backward_propagation_stages_poplar_options,
    )
    pipeline = pipeline_of_model(model) if any(passes) else None
    if pipeline is None:
        return None
    planning = planning_of_stages(*passes, pipeline.stages)
    if planning is None:
        return None
    stages = with_short_paths(pipeline.stage_of_layers, model.name)
    return {path: planning[stage] for path, stage in stages.items()}


def offload_of(options: PipeliningOptions) -> Offload:
    """Returns the data that pipeline options always move off the tiles.

    Weights go to streaming memory only if replicas also share them out, as on the machine.
    """
    shares_weights = bool(options.replicated_weight_sharding)
    return Offload(
        optimizer_state=bool(options.offload_weight_update_variables),
        shard_optimizer_state=options.replicated_optimizer_state_sharding,
        accumulators=bool(options.offload_gradient_accumulation_buffers),
        activations=bool(options.offload_activations),
        shard_weights=shares_weights,
        weights=shares_weights and bool(options.offload_weights),
        optimizer_state_replicas=options.optimizer_state_replicas,
        weight_replicas=options.weight_replicas,
    )


def offload_without_stages(options: GradientAccumulationOptions) -> Offload:
    """Returns the data that accumulation options move off the tiles."""
    return Offload(
        optimizer_state=bool(options.offload_weight_update_variables),
        shard_optimizer_state=options.replicated_optimizer_state_sharding,
    )


def _one_stage(model: StatefulModel, *, training: bool) -> Deployment | None:
    """Returns how a step of a model without stages runs, None for a single batch on one IPU."""
    accumulation = accumulation_of_model(model) if training else GradientAccumulationOptions()
    options = Deployment(
        stage_of_layers={model.name: 0},
        micro_batches=accumulation.steps_per_replica,
        recompute=_recomputes(model) and training,
        checkpoints=model.ipu_training_state.recomputation.checkpoints if training else (),
        replicas=_replicas_of_job(model),
        offload=offload_without_stages(accumulation),
        may_move_state=accumulation.offload_weight_update_variables is None,
    )
    alone = options.micro_batches == options.replicas == 1 and not options.checkpoints
    as_configured = options.recompute == (device_configuration().allow_recompute and training)
    is_plain = alone and as_configured and options.offload == ALL_ON_TILES
    return None if is_plain else options


def _replicas_of_job(model: StatefulModel) -> int:
    """Returns the number of replicas of all instances, whose IPUs are one system.

    A system has a power of two of them; other jobs are charged for one instance alone.
    """
    here = replicas_on_device(model)
    everywhere = here * instances().count
    return here if everywhere & (everywhere - 1) else everywhere


def _recomputes(model: StatefulModel, mode: RecomputationMode = RecomputationMode.Auto) -> bool:
    """Returns whether a model recomputes activations: by its own options, else the pipeline's or
    the configuration's."""
    option = model.ipu_training_state.recomputation.recompute
    if option is not None:
        return option
    return mode is not RecomputationMode.Auto or device_configuration().allow_recompute
