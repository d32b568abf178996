"""Keras models, layers and optimizers for the simulated IPU."""

from ipu_tf.keras import device_pipeline, layers, optimizers, pipeline  # noqa: F401 # Registers.
from ipu_tf.keras.models import Model, Sequential
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
    "PipelineStage",
    "Sequential",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
    "layers",
    "optimizers",
    "pipeline",
]
