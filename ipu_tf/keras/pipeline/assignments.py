"""The pipeline stages of a model's layers, as values that scripts read and change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ipu_tf.keras.adapters.graphs import GraphModel, Layer, graphs_of
from ipu_tf.keras.pipeline.scope import check_stage


class SequentialLayerPipelineStageAssignment:
    """The stage of a layer of a Sequential model.

    Args:
        layer: The layer.
        pipeline_stage: Its stage, None for none yet.
    """

    is_nested_model = False

    def __init__(self, layer: Layer, pipeline_stage: int | None = None) -> None:
        self._layer = layer
        self.pipeline_stage = pipeline_stage

    @property
    def layer(self) -> Layer:
        """The layer."""
        return self._layer

    @property
    def pipeline_stage(self) -> int | None:
        """The stage, None for none yet."""
        return self._stage

    @pipeline_stage.setter
    def pipeline_stage(self, stage: int | None) -> None:
        self._stage = None if stage is None else check_stage(stage)

    def __str__(self) -> str:
        return f"Layer: {self._layer.name} is assigned to pipeline stage: {self._stage}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._layer.name!r}, pipeline_stage={self._stage})"


class ModelLayerPipelineStageAssignment(SequentialLayerPipelineStageAssignment):
    """The stage of one call of a layer of a model.

    Args:
        layer: The layer.
        node_index: Number of the call among those of the layer.
        pipeline_stage: Its stage, None for none yet.
    """

    def __init__(self, layer: Layer, node_index: int, pipeline_stage: int | None = None) -> None:
        super().__init__(layer, pipeline_stage)
        self._node_index = node_index

    @property
    def node_index(self) -> int:
        """Number of the call among those of the layer."""
        return self._node_index

    @property
    def inbound_layers(self) -> InboundLayers:
        """The layer whose output the call takes, or the list of several."""
        return _inbound_layers(self._layer, self._node_index)

    def __str__(self) -> str:
        return (
            f"Layer: {self.layer.name} (node index {self._node_index}) is assigned to pipeline "
            f"stage: {self.pipeline_stage}"
        )


class FunctionalLayerPipelineStageAssignment(ModelLayerPipelineStageAssignment):
    """The stage of one call of a layer of a functional model."""


class SequentialNestedModelPipelineStageAssignment:
    """The stages of the layers of a model that is nested in a Sequential model.

    Args:
        nested_model: The nested model.
        pipeline_stage_assignments: An assignment for each of its layers.
    """

    is_nested_model = True

    def __init__(
        self, nested_model: GraphModel, pipeline_stage_assignments: Sequence[Assignment]
    ) -> None:
        self._nested_model = nested_model
        self._assignments = list(pipeline_stage_assignments)

    @property
    def nested_model(self) -> GraphModel:
        """The nested model."""
        return self._nested_model

    @property
    def pipeline_stage_assignments(self) -> list[Assignment]:
        """The assignment of each layer of the nested model."""
        return self._assignments

    def __str__(self) -> str:
        lines = [f"    {assignment}" for assignment in self._assignments]
        return "\n".join([f"Nested Model: {self._nested_model.name}", *lines])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._nested_model.name!r}, {self._assignments})"


class NestedModelPipelineStageAssignment(SequentialNestedModelPipelineStageAssignment):
    """The stages of the layers of a nested model in one call of it.

    Args:
        nested_model: The nested model.
        node_index: Number of the call among those of the nested model.
        pipeline_stage_assignments: An assignment for each of its layers.
    """

    def __init__(
        self,
        nested_model: GraphModel,
        node_index: int,
        pipeline_stage_assignments: Sequence[Assignment],
    ) -> None:
        super().__init__(nested_model, pipeline_stage_assignments)
        self._node_index = node_index

    @property
    def node_index(self) -> int:
        """Number of the call among those of the nested model."""
        return self._node_index

    @property
    def inbound_layers(self) -> InboundLayers:
        """The layer whose output the call takes, or the list of several."""
        return _inbound_layers(self.nested_model, self._node_index)


class FunctionalNestedModelPipelineStageAssignment(NestedModelPipelineStageAssignment):
    """The stages of the layers of a nested model in one call of it in a functional model."""


Assignment: TypeAlias = (
    SequentialLayerPipelineStageAssignment | SequentialNestedModelPipelineStageAssignment
)
"""The stage of a layer, or those of the layers of a nested model."""

InboundLayers: TypeAlias = Layer | list[Layer | None] | None
"""The layer that a call takes its input of, or those of several; None for inputs of a model."""


def _inbound_layers(layer: Layer, node_index: int) -> InboundLayers:
    graphs = graphs_of(layer)
    producers = map(graphs.producer_of, graphs.operands_of(graphs.nodes(layer)[node_index]))
    layers = [None if node is None else graphs.operation_of(node) for node in producers]
    return layers[0] if len(layers) == 1 else layers
