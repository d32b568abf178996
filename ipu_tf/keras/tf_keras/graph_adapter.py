"""The symbolic calls of tf_keras, as pipelines see them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import cast

import tensorflow as tf
import tf_keras

from ipu_tf.internals.tf_keras import (
    OPERATION_LAYERS,
    TfKerasFunctional,
    TfKerasNode,
    TfKerasTensor,
    layers_within,
    node_of,
    nodes_by_depth,
)
from ipu_tf.keras.adapters.graphs import GraphModel, Kind, Layer, Structure, graphs_of

_NEW_INPUT = "ipu_tf_input"  # With a name, it takes none of those that tf_keras numbers.


@dataclass(frozen=True, slots=True)
class TfKerasGraphs:
    """The symbolic calls of tf_keras; see `GraphAdapter`."""

    def kind(self, operation: object) -> Kind:
        """Returns what a layer or a model is."""
        if isinstance(operation, tf_keras.Sequential):
            return "sequential"
        if isinstance(operation, TfKerasFunctional):
            return "functional"
        if isinstance(operation, tf_keras.Model):
            return "subclass"
        if isinstance(operation, OPERATION_LAYERS):
            return "operation layer"
        return "input" if isinstance(operation, tf_keras.layers.InputLayer) else "layer"

    def overrides_call(self, model: GraphModel) -> bool:
        """Returns whether a functional or Sequential model overrides `call`."""
        is_sequential = isinstance(model, tf_keras.Sequential)
        stock = tf_keras.Sequential if is_sequential else TfKerasFunctional
        of_class = inspect.getattr_static(type(model), "call")
        return of_class is not inspect.getattr_static(stock, "call")

    def layers_within(self, model: Layer) -> Sequence[Layer]:
        """Returns all layers in a model, those of nested models and layers, too, but not itself."""
        return layers_within(model)

    def path_of(self, layer: Layer, parent: str) -> str:
        """Returns the path of a layer: its ops are in the scope of the layer that calls it."""
        return f"{parent}/{layer.name}" if parent else str(layer.name)

    def momentum_of_statistics(self, layer: Layer) -> float | None:
        """Returns the momentum of a batch normalization's moving statistics, None of others."""
        return layer.momentum if isinstance(layer, tf_keras.layers.BatchNormalization) else None

    def nodes(self, layer: Layer) -> Sequence[TfKerasNode]:
        """Returns the symbolic calls of a layer, in their order."""
        nodes: Sequence[TfKerasNode] = cast("tf_keras.layers.Layer", layer).inbound_nodes
        return nodes

    def nodes_by_depth(self, model: TfKerasFunctional) -> Sequence[TfKerasNode]:
        """Returns the calls of a functional model, those farthest from its outputs first."""
        return nodes_by_depth(model)

    def producer_of(self, tensor: TfKerasTensor) -> TfKerasNode | None:
        """Returns the call that makes a symbolic tensor, None if none has made it."""
        return node_of(tensor)

    def operation_of(self, node: TfKerasNode) -> Layer:
        """Returns the layer that is called."""
        return node.layer

    def operands_of(self, node: TfKerasNode) -> Sequence[TfKerasTensor]:
        """Returns the symbolic tensors that a call takes."""
        tensors: Sequence[TfKerasTensor] = node.keras_inputs
        return tensors

    def results_of(self, node: TfKerasNode) -> Sequence[TfKerasTensor]:
        """Returns the symbolic tensors that a call makes."""
        tensors: Sequence[TfKerasTensor] = tf.nest.flatten(node.outputs)
        return tensors

    def arguments_of(
        self, node: TfKerasNode
    ) -> tuple[Sequence[Structure], Mapping[str, Structure]]:
        """Returns the positional and the keyword arguments of a call."""
        return node.call_args, node.call_kwargs

    def fresh_tensor(self, shape: Sequence[int | None], dtype: str) -> TfKerasTensor:
        """Returns a new symbolic tensor."""
        return tf_keras.Input(type_spec=tf.TensorSpec(shape, dtype), name=_NEW_INPUT)

    def tensors_in(self, structure: Structure) -> Sequence[TfKerasTensor]:
        """Returns the symbolic tensors of a structure."""
        leaves = tf.nest.flatten(structure)
        return [leaf for leaf in leaves if isinstance(leaf, TfKerasTensor)]

    def naming(self, model: GraphModel) -> AbstractContextManager[object]:
        """Returns a context without effect: calls give layers their paths."""
        del model
        return contextlib.nullcontext()


GRAPHS = TfKerasGraphs()


@graphs_of.register(tf_keras.layers.Layer)
def _graphs(layer: tf_keras.layers.Layer) -> TfKerasGraphs:
    return GRAPHS
