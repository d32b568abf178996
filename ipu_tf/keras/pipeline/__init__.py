"""Pipelining of Keras models: splits layers into stages and places stages on IPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from ipu_tf.keras.adapters.graphs import GraphModel
from ipu_tf.keras.pipeline.assignments import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipu_tf.keras.pipeline.scope import PipelineStage

__all__ = [
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "ModelLayerPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "PipelineStage",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
    "stage_of_layers",
]


@runtime_checkable
class StagedModel(Protocol):
    """A model that knows the stages of its layers, as all models of the scope do."""

    def pipeline_stages(self) -> Mapping[str, int]:
        """Returns the stage of each layer by its path, empty for a model without stages."""


def stage_of_layers(model: GraphModel) -> Mapping[str, int]:
    """Returns the pipeline stage of each layer of a model, by the paths that programs use.

    A path such as "model/block" includes all layers below it. The result is empty for a model
    without stages. A layer that is called in several stages belongs to the first of them; stages
    that share variables share an IPU.

    Raises:
        RuntimeError: A stage has no layer.
        ValueError: A layer has no stage, or the options of the pipeline do not fit its stages.
    """
    return model.pipeline_stages() if isinstance(model, StagedModel) else {}
