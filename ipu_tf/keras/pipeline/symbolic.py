"""Finds the layer graph of a subclassed model by calling it with symbolic inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ipu_tf.internals.structures import SpecStructure
from ipu_tf.keras.adapters.estimates import estimates_of
from ipu_tf.keras.adapters.graphs import GraphModel, Structure, graphs_of
from ipu_tf.keras.data.input_shapes import specs_of_shapes
from ipu_tf.keras.pipeline.inner_calls import fresh, inputs_of
from ipu_tf.keras.pipeline.layer_graph import LayerGraph, graph_of_call


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGraph:
    """The layer graph of a subclassed model.

    Attributes:
        inputs: Shapes and types of the inputs that it is the graph for.
        graph: The graph.
    """

    inputs: str
    graph: LayerGraph


def call_graph(model: GraphModel, specs: SpecStructure, current: CallGraph | None) -> CallGraph:
    """Returns the layer graph of a built subclassed model.

    Args:
        model: The model.
        specs: Shapes and types of inputs that it was built with, None where only shapes are known.
        current: Its graph, if it is already known for some inputs.

    Raises:
        RuntimeError: The model is not built, or `PipelineStage` scopes in it are nested.
        SymbolicCallError: It cannot be called with symbolic inputs.
    """
    args, kwargs = _symbolic_inputs(model, specs)
    inputs = inputs_of(args, kwargs)
    if current is not None and current.inputs == inputs:
        return current
    graph = graph_of_call(model, args, kwargs)
    return CallGraph(inputs=inputs, graph=graph)


class LayerCalls:
    """The layer graph of a subclassed model, found again only for other inputs.

    Attributes:
        seen_inputs: Shapes and types of the last inputs that the model was built for, None where
            only shapes are known.
    """

    def __init__(self) -> None:
        self.seen_inputs: SpecStructure = None
        self._call_graph: CallGraph | None = None

    def graph(self, model: GraphModel) -> LayerGraph:
        """Returns the layer graph of the built subclassed model; see `call_graph`."""
        self._call_graph = call_graph(model, self.seen_inputs, self._call_graph)
        return self._call_graph.graph


def _symbolic_inputs(
    model: GraphModel, input_specs: SpecStructure
) -> tuple[Sequence[Structure], Mapping[str, Structure]]:
    """Returns the arguments of the last symbolic call of a model, or of its build."""
    graphs = graphs_of(model)
    if nodes := graphs.nodes(model):
        args, kwargs = graphs.arguments_of(nodes[-1])
        return fresh(graphs, args), fresh(graphs, kwargs)
    if input_specs is not None:
        return (fresh(graphs, input_specs),), {}
    config = cast("dict[str, Any]", model.get_build_config()) if model.built else None
    if not config:
        specs_of_build = estimates_of(model).built_inputs
        if specs_of_build is not None:
            return (fresh(graphs, specs_of_build),), {}
        raise RuntimeError(
            "The pipeline stage assignments belong to the layers of a model which has not been "
            "built yet. Please call `model.build()` first, or the model on a `keras.Input`. "
            f"Received: model '{model.name}'."
        )
    if "input_shape" in config:
        specs = specs_of_shapes(config["input_shape"], model.compute_dtype)
        return (fresh(graphs, specs),), {}
    names = {name: name.removesuffix("_shape") for name in config["shapes_dict"]}
    return (), {
        names[name]: fresh(graphs, specs_of_shapes(shape, model.compute_dtype))
        for name, shape in config["shapes_dict"].items()
    }
