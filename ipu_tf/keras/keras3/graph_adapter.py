"""The symbolic calls of Keras 3, as pipelines see them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.internals import keras_layers
from ipu_tf.internals.keras import KerasFunctional, KerasNode
from ipu_tf.internals.keras_graphs import history_of, inbound_nodes, nodes_by_depth
from ipu_tf.keras.adapters.graphs import GraphModel, Kind, Layer, Structure, StructureT, graphs_of


@dataclass(frozen=True, slots=True)
class Keras3Graphs:
    """The symbolic calls of Keras 3; see `GraphAdapter`."""

    def kind(self, operation: object) -> Kind:
        """Returns what an operation, a layer or a model is."""
        if not isinstance(operation, keras.Layer):
            return "operation"
        if isinstance(operation, keras.Sequential):
            return "sequential"
        if isinstance(operation, KerasFunctional):
            return "functional"
        if isinstance(operation, keras.Model):
            return "subclass"
        return "input" if isinstance(operation, keras.layers.InputLayer) else "layer"

    def overrides_call(self, model: GraphModel) -> bool:
        """Returns whether a functional or Sequential model overrides `call`."""
        stock = KerasFunctional if isinstance(model, KerasFunctional) else keras.Sequential
        of_class = inspect.getattr_static(type(model), "call")
        return of_class is not inspect.getattr_static(stock, "call")

    def layers_within(self, model: Layer) -> Sequence[Layer]:
        """Returns all layers in a model, those of nested models and layers, too, but not itself."""
        return keras_layers.layers_within(model)

    def path_of(self, layer: Layer, parent: str) -> str:
        """Returns the path of a layer.

        A layer keeps the path of its first call, without a model if it was called on its own.
        """
        path = keras_layers.first_path_of(layer)
        first_parent = parent if path is None else path
        return f"{first_parent}/{layer.name}" if first_parent else layer.name

    def momentum_of_statistics(self, layer: Layer) -> float | None:
        """Returns the momentum of a batch normalization's moving statistics, None of others."""
        return layer.momentum if isinstance(layer, keras.layers.BatchNormalization) else None

    def nodes(self, layer: Layer) -> Sequence[KerasNode]:
        """Returns the symbolic calls of a layer, in their order."""
        return inbound_nodes(layer)

    def nodes_by_depth(self, model: KerasFunctional) -> Sequence[KerasNode]:
        """Returns the calls of a functional model, those farthest from its outputs first."""
        return nodes_by_depth(model)

    def producer_of(self, tensor: keras.KerasTensor) -> KerasNode | None:
        """Returns the call that makes a symbolic tensor, None if none has made it."""
        operation, index, _ = history_of(tensor)
        return None if operation is None else inbound_nodes(operation)[index]

    def operation_of(self, node: KerasNode) -> Layer:
        """Returns the operation that is called."""
        return node.operation

    def operands_of(self, node: KerasNode) -> Sequence[keras.KerasTensor]:
        """Returns the symbolic tensors that a call takes."""
        tensors: Sequence[keras.KerasTensor] = node.input_tensors
        return tensors

    def results_of(self, node: KerasNode) -> Sequence[keras.KerasTensor]:
        """Returns the symbolic tensors that a call makes."""
        tensors: Sequence[keras.KerasTensor] = node.outputs
        return tensors

    def arguments_of(self, node: KerasNode) -> tuple[Sequence[Structure], Mapping[str, Structure]]:
        """Returns the positional and the keyword arguments of a call."""
        return node.arguments.args, node.arguments.kwargs

    def fresh_tensor(self, shape: Sequence[int | None], dtype: str) -> keras.KerasTensor:
        """Returns a new symbolic tensor."""
        return keras.KerasTensor(tuple(shape), dtype=keras.backend.standardize_dtype(dtype))

    def tensors_in(self, structure: Structure) -> Sequence[keras.KerasTensor]:
        """Returns the symbolic tensors of a structure."""
        leaves = keras.tree.flatten(structure)
        return [leaf for leaf in leaves if isinstance(leaf, keras.KerasTensor)]

    def naming(self, model: GraphModel) -> AbstractContextManager[object]:
        """Returns a context in which layers that a model builds get paths in it."""
        scope: AbstractContextManager[object] = keras.name_scope(model.name)
        return scope


GRAPHS = Keras3Graphs()


@graphs_of.register(keras.Layer)
def _graphs(layer: keras.Layer) -> Keras3Graphs:
    return GRAPHS


def shapes_of(structure: StructureT) -> StructureT:
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
