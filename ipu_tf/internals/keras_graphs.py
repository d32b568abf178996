"""What Keras keeps private of the graph between symbolic tensors."""

from __future__ import annotations

import keras

from ipu_tf.internals.keras import KerasFunctional, KerasHistory, KerasNode


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


def nodes_by_depth(model: KerasFunctional) -> list[KerasNode]:
    """Returns the calls of a graph, those farthest from its outputs first.

    Relies on `Functional._nodes_by_depth`.
    """
    depths = sorted(model._nodes_by_depth.items(), reverse=True)
    return [node for _, nodes in depths for node in nodes]
