"""What Keras keeps private of the graph between symbolic tensors."""

from __future__ import annotations

from collections.abc import Sequence

import keras

# The graph between symbolic tensors, which functional models find when they are made.
from keras.src.ops.function import map_graph

# Keras keeps the graphs of functional models out of its tracking.
from keras.src.utils.tracking import DotNotTrackScope

from ipu_tf.internals.keras import KerasFunctional, KerasHistory, KerasNode

_BESIDE = "ipu_tf_beside_outputs"
"""The attribute of a functional model with the tensors that it computes beside its outputs."""


def inbound_nodes(operation: keras.Operation) -> list[KerasNode]:
    """Returns the symbolic calls of a layer or operation, in their order.

    The public `input` and `output` of a layer fail where it was called more than once. Relies on
    `Operation._inbound_nodes`.
    """
    nodes: list[KerasNode] = operation._inbound_nodes
    return nodes


def history_of(tensor: keras.KerasTensor) -> KerasHistory:
    """Returns what made a symbolic tensor: operation, number of its call, number of the output.

    The public graph of a model has layers alone. Relies on `KerasTensor._keras_history`.
    """
    return tensor._keras_history


def outbound_nodes(layer: keras.Layer) -> list[KerasNode]:
    """Returns the symbolic calls that take a layer's outputs.

    Relies on `Operation._outbound_nodes`.
    """
    nodes: list[KerasNode] = layer._outbound_nodes
    return nodes


def graph_in(layer: keras.Layer) -> KerasFunctional | None:
    """Returns the functional model that a layer is, or that a Sequential runs; None without one.

    Relies on `Sequential._functional`.
    """
    if isinstance(layer, keras.Sequential):
        layer = layer._functional
    return layer if isinstance(layer, KerasFunctional) else None


def add_to_graph(model: KerasFunctional, tensors: Sequence[keras.KerasTensor]) -> None:
    """Makes a functional model compute symbolic tensors beside its outputs.

    No public name changes the graph of a model. Relies on the attributes in which
    `Function.__init__` keeps it, and on `Layer._tracker`.
    """
    beside = [*vars(model).get(_BESIDE, ()), *tensors]
    vars(model)[_BESIDE] = beside
    graph = map_graph(model._inputs, [*model._outputs, *beside])
    with DotNotTrackScope():
        model._nodes, model._nodes_by_depth, model._operations, model._operations_by_depth = graph
    for layer in model.layers:
        model._tracker.track(layer)


def layers_beside(model: KerasFunctional) -> list[keras.Layer]:
    """Returns the layers that compute what `add_to_graph` added to a functional model.

    Relies on `KerasTensor._keras_history`.
    """
    return [history_of(tensor)[0] for tensor in vars(model).get(_BESIDE, ())]


def operations_after(model: KerasFunctional) -> list[keras.Operation]:
    """Returns the operations that compute from tensors of a functional model, itself left out.

    Relies on `Operation._outbound_nodes`.
    """
    found = dict.fromkeys(model.operations)
    worklist = list(found)
    while worklist:
        after = [node.operation for node in worklist.pop()._outbound_nodes]
        worklist += [operation for operation in after if operation not in found]
        found.update(dict.fromkeys(after))
    return [operation for operation in found if operation not in model.operations]
