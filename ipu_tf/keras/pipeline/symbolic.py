"""Finds the layer graph of a subclassed model by calling it with symbolic inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.internals.keras_graphs import inbound_nodes
from ipu_tf.keras.pipeline.inner_calls import fresh, fresh_tensor, inputs_of
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


def call_graph(model: keras.Model, seen: Any, known: CallGraph | None) -> CallGraph:
    """Returns the layer graph of a built subclassed model.

    Args:
        model: The model.
        seen: Shapes and types of inputs that it was built with, None where only shapes are known.
        known: Its graph, if it is already known for some inputs.

    Raises:
        RuntimeError: The model is not built, or `PipelineStage` scopes in it are nested.
        SymbolicCallError: It cannot be called with symbolic inputs.
    """
    args, kwargs = _symbolic_inputs(model, seen)
    inputs = inputs_of(args, kwargs)
    if known is not None and known.inputs == inputs:
        return known
    graph = graph_of_call(model, args, kwargs)
    return CallGraph(inputs=inputs, graph=graph)


class LayerCalls:
    """The layer graph of a subclassed model, found again only for other inputs.

    Attributes:
        seen_inputs: Shapes and types of the last inputs that the model was built for, None where
            only shapes are known.
    """

    def __init__(self) -> None:
        self.seen_inputs: Any = None
        self._call_graph: CallGraph | None = None

    def graph(self, model: keras.Model) -> LayerGraph:
        """Returns the layer graph of the built subclassed model; see `call_graph`."""
        self._call_graph = call_graph(model, self.seen_inputs, self._call_graph)
        return self._call_graph.graph


def has_tensors(structure: Any) -> bool:
    """Returns whether there are symbolic tensors in a structure."""
    return any(isinstance(leaf, keras.KerasTensor) for leaf in keras.tree.flatten(structure))


def shapes_of(structure: Any) -> Any:
    """Returns a structure with the shapes of symbolic tensors, and the values of others.

    A `Dimension` of TensorFlow 1 is a whole number, or None.
    """

    def shape_of(leaf: Any) -> Any:
        if isinstance(leaf, keras.KerasTensor):
            return tuple(leaf.shape)
        if isinstance(leaf, tf.compat.v1.Dimension):
            return leaf.value
        return int(leaf) if tf.is_tensor(leaf) else leaf

    return keras.tree.map_structure(shape_of, structure)


def _symbolic_inputs(model: keras.Model, seen: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of the last symbolic call of a model, or of its build."""
    if nodes := inbound_nodes(model):
        arguments = nodes[-1].arguments
        return fresh(arguments.args), fresh(arguments.kwargs)
    if seen is not None:
        return (fresh(seen),), {}
    config = model.get_build_config() if model.built else None
    if not config:
        raise RuntimeError(
            "The pipeline stage assignments belong to the layers of a model which has not been "
            "built yet. Please call `model.build()` first, or the model on a `keras.Input`. "
            f"Received: model '{model.name}'."
        )
    if "input_shape" in config:
        return (_of_shapes(config["input_shape"], model.compute_dtype),), {}
    names = {name: name.removesuffix("_shape") for name in config["shapes_dict"]}
    return (), {
        names[name]: _of_shapes(shape, model.compute_dtype)
        for name, shape in config["shapes_dict"].items()
    }


def _of_shapes(shapes: Any, dtype: str) -> Any:
    if isinstance(shapes, dict):
        return {name: _of_shapes(shape, dtype) for name, shape in shapes.items()}
    if all(size is None or isinstance(size, int) for size in shapes):
        return fresh_tensor(shapes, dtype)
    return [_of_shapes(shape, dtype) for shape in shapes]
