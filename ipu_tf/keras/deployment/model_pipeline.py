"""The pipeline that a model's layers and training state make."""

from __future__ import annotations

import contextlib
import dataclasses
import logging

from ipu_tf.keras.adapters.graphs import graphs_of
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.pipeline import stages as stage_rules
from ipu_tf.keras.pipeline.inner_calls import SymbolicCallError
from ipu_tf.keras.pipeline.layer_graph import LayerGraph, graph_of
from ipu_tf.keras.pipeline.pipeline import Pipeline, warn_about_moving_statistics
from ipu_tf.keras.pipeline.stages import Stages
from ipu_tf.keras.replication.replica_state import replication_factor
from ipu_tf.keras.training_state import NO_STAGES, AssignedStages, StatefulModel

logger = logging.getLogger(__name__)


def layer_graph(model: StatefulModel) -> LayerGraph:
    """Returns the graph of a model's layer calls.

    Raises:
        RuntimeError: The model is a subclass that is not built.
        ValueError: The layers of a subclassed model cannot be seen.
    """
    if graphs_of(model).kind(model) in ("sequential", "functional"):
        return graph_of(model)
    return model.ipu_layer_calls.graph(model)


def pipeline_of_model(model: StatefulModel) -> Pipeline | None:
    """Returns a model's pipeline, None if it is not pipelined.

    Raises:
        RuntimeError: A stage has no layer, the model is not built, or it overrides `call`.
        ValueError: A layer has no stage, or the options do not fit the stages.
    """
    state = model.ipu_training_state
    return state.pipeline_of(layer_graph(model)) if state.may_pipeline(model) else None


def accumulation_of_model(model: StatefulModel) -> GradientAccumulationOptions:
    """Returns how training accumulates the gradients of a model."""
    return model.ipu_training_state.accumulation_in(pipeline_of_model(model))


def replicas_on_device(model: StatefulModel) -> int:
    """Returns the number of replicas of a model on its device.

    Raises:
        ValueError: One replica needs more IPUs than the device has.
    """
    pipeline = pipeline_of_model(model)
    ipus = 1 if pipeline is None else pipeline.ipus_of_replica
    return replication_factor(model.distribute_strategy, ipus)


def assign_stages(model: StatefulModel, graph: LayerGraph, stages: Stages) -> None:
    """Assigns stages to the layer invocations of a model's graph."""
    layers = tuple(call.layer for call in graph.layer_invocations)
    _set_stages(model, AssignedStages(stages=stages, layers=layers))


def remove_stages(model: StatefulModel) -> None:
    """Removes the stages of all layers of a model: it is no longer pipelined."""
    _set_stages(model, NO_STAGES)


def remove_assigned_stages(model: StatefulModel) -> None:
    """Removes assigned stages, because the layers are about to change; logs a warning."""
    if model.ipu_training_state.assigned_stages not in (None, NO_STAGES):
        logger.warning(
            "The pipeline stage assignment of model '%s' is dropped, because its layers change. "
            "Set it again.",
            model.name,
        )
        remove_stages(model)


def check_recorded_stages(model: StatefulModel) -> None:
    """Checks that either all layers of a model or none are in `PipelineStage` scopes.

    Raises:
        ValueError: Only some are, or the layers of a subclassed model cannot be seen.
    """
    graph = layer_graph(model)
    stages = graph.recorded_stages()
    if any(stage is not None for stage in stages):
        stage_rules.check_complete(graph, stages)


def check_stages_of_built(model: StatefulModel) -> None:
    """Checks the recorded stages of a model that a user has built, if it is a subclass.

    Nothing is checked while its layers cannot be seen: that is an error where stages are needed.

    Raises:
        ValueError: Only some of its layers are in `PipelineStage` scopes.
    """
    is_subclass = graphs_of(model).kind(model) == "subclass"
    if is_subclass and model.ipu_training_state.assigned_stages is None:
        with contextlib.suppress(SymbolicCallError):
            check_recorded_stages(model)


def checked_training_pipeline(model: StatefulModel) -> Pipeline | None:
    """Returns the pipeline that is about to train, None if the model is not pipelined.

    Raises:
        NotImplementedError: Interleaved stages share an IPU.
        ValueError: The number of micro-batches has not been set.
        tf.errors.FailedPreconditionError: The schedule does not support this number.
    """
    pipeline = pipeline_of_model(model)
    if pipeline is not None:
        pipeline.check_training()
        warn_about_moving_statistics(model)
    return pipeline


def check_inference_steps(model: StatefulModel, steps: int) -> None:
    """Checks that an execution without training fills the pipeline, if the model has one.

    Raises:
        tf.errors.FailedPreconditionError: The schedule does not support this number of steps.
    """
    pipeline = pipeline_of_model(model)
    if pipeline is not None:
        pipeline.check_inference(steps)


def inference_depth(model: StatefulModel) -> int:
    """Returns the steps that fill the pipeline of a model without training; 1 if it has none."""
    pipeline = pipeline_of_model(model)
    return 1 if pipeline is None else pipeline.inference_depth


def _set_stages(model: StatefulModel, stages: AssignedStages) -> None:
    state = dataclasses.replace(model.ipu_training_state, assigned_stages=stages)
    model.ipu_training_state = state
