"""Keras models, layers and optimizers for the simulated IPU."""

import ipu_tf.keras.keras3.construction  # Importing it registers it with the strategy.
import ipu_tf.keras.keras3.layer_calls
import ipu_tf.keras.keras3.model_adapter
import ipu_tf.keras.keras3.rematerialization
import ipu_tf.keras.tf_keras_scope  # noqa: F401 # So do these.
from ipu_tf.keras import callbacks, extensions, layers, optimizers, pipeline
from ipu_tf.keras.deployment import rebatching as _rebatching  # noqa: F401  # It registers itself.
from ipu_tf.keras.deployment.auto_pipeline import PipelineDecision, auto_pipeline
from ipu_tf.keras.extensions import ReplicatedMetricReductionMethod
from ipu_tf.keras.keras3.models import Model, Sequential
from ipu_tf.keras.pipeline import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    PipelineStage,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)

__all__ = [
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "Model",
    "ModelLayerPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "PipelineDecision",
    "PipelineStage",
    "ReplicatedMetricReductionMethod",
    "Sequential",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
    "auto_pipeline",
    "callbacks",
    "extensions",
    "layers",
    "optimizers",
    "pipeline",
]
