"""What Keras keeps private of the graph between symbolic tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Mapping, Sequence

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
    """Returns the calls of a graph, those farthest from its outputs first."""
    return [node for nodes in nodes_at_depths(model).values() for node in nodes]


def nodes_at_depths(model: KerasFunctional) -> dict[int, list[KerasNode]]:
    """Returns the calls of a graph by their depth, those farthest from its outputs first.

    Relies on `Functional._nodes_by_depth`.
    """
    return dict(sorted(model._nodes_by_depth.items(), reverse=True))


@contextlib.contextmanager
def with_calls_alone(
    model: KerasFunctional,
    calls: Mapping[int, Sequence[object]],
    without: Container[keras.Operation],
) -> Iterator[None]:
    """Makes a graph run some of its calls and have fewer layers while the context is open.

    A copy of a model calls all layers once more to build its graph. Relies on
    `Functional._nodes_by_depth`, which its `call` walks, and on `Layer._layers`, whose variables
    are the model's.

    Args:
        model: The graph.
        calls: Its calls by their depth, the distance from the outputs.
        without: Its operations that count for nothing, nor do their variables.
    """
    attributes = vars(model)
    around = {name: attributes[name] for name in ("_nodes_by_depth", "_layers")}
    layers = [layer for layer in around["_layers"] if layer not in without]
    attributes.update(_nodes_by_depth=calls, _layers=layers)
    try:
        yield
    finally:
        attributes.update(around)
