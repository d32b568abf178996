"""The graph of a model's layer calls, from which pipeline stages are cut.

The graph is read from the record that a Keras has of symbolic calls: the graph of a functional
model, the list of a Sequential, and for a subclassed model the calls that its `call` makes on
symbolic inputs. Nested models are split into their layers, except those whose `call` does not run
on symbolic inputs; any other layer is one piece. Operations that are not layers follow their
operands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import tensorflow as tf
from keras import tree

from ipu_tf.keras.adapters.graphs import (
    GraphAdapter,
    GraphModel,
    Layer,
    Node,
    Structure,
    SymbolicTensor,
    graphs_of,
)
from ipu_tf.keras.pipeline.inner_calls import SymbolicCallError, inner_call, symbolic_call
from ipu_tf.keras.pipeline.scope import recorded_stage, was_called_in_stage

Sources = frozenset[int]
"""Ordinals of the invocations whose outputs a tensor is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call of a layer.

    Attributes:
        layer: The layer.
        node_index: Number of the call among those of the layer.
        path: Path of the layer, as Keras and programs name it: "model/nested/dense".
        ordinal: Number among the calls of single layers; -1 for a nested model.
        after: Ordinals of the calls whose outputs it takes.
        recorded_stage: Stage of the `PipelineStage` scope around it, or None.
        parts: The calls inside a nested model; None for a single layer.
    """

    layer: Layer
    node_index: int
    path: str
    ordinal: int = -1
    after: Sources = frozenset()
    recorded_stage: int | None = None
    parts: tuple[Invocation, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGraph:
    """The calls of layers of a model, each after those whose outputs it takes.

    Attributes:
        model: The model.
        invocations: Its calls; those in a nested model are parts of the nested model's call.
    """

    model: GraphModel
    invocations: tuple[Invocation, ...]

    @property
    def layer_invocations(self) -> tuple[Invocation, ...]:
        """The calls of single layers, by their ordinals."""
        return tuple(_of_layers(self.invocations))

    def recorded_stages(self) -> tuple[int | None, ...]:
        """Returns the stage of the scope around each layer invocation."""
        return tuple(invocation.recorded_stage for invocation in self.layer_invocations)


def graph_of(model: GraphModel) -> LayerGraph:
    """Returns the layer graph of a functional or Sequential model."""
    walk = _Walk(graphs_of(model), model.distribute_strategy)
    return LayerGraph(model=model, invocations=walk.model(model).invocations)


def graph_of_call(
    model: GraphModel, args: Sequence[Structure], kwargs: Mapping[str, Structure]
) -> LayerGraph:
    """Returns the layer graph of a subclassed model, by calling its `call` once more.

    Args:
        model: A built model.
        args: Symbolic positional arguments of its call.
        kwargs: Its symbolic keyword arguments.

    Raises:
        RuntimeError: Its `PipelineStage` scopes are nested.
        SymbolicCallError: It cannot be called with symbolic inputs.
    """
    graphs = graphs_of(model)
    with graphs.naming(model):
        outputs = symbolic_call(model, args, kwargs, model.distribute_strategy)
    inputs = tree.flatten([args, kwargs])
    walk = _Walk(graphs, model.distribute_strategy)
    sources: list[Sources] = [frozenset()] * len(inputs)
    part = walk.nodes(model.name, inputs, tree.flatten(outputs), sources, _Stages())
    return LayerGraph(model=model, invocations=part.invocations)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stages:
    """The stages set by the calls around a layer: the outermost one overrides the layer's own."""

    call_stage: int | None = None
    layer_stage: int | None = None

    def of(self, layer: Layer, node: Node | None) -> int | None:
        """Returns the stage of a call of a layer."""
        inner = self.within(layer, node)
        return inner.call_stage if inner.call_stage is not None else inner.layer_stage

    def within(self, layer: Layer, node: Node | None) -> _Stages:
        """Returns the stages that a call of a layer sets for the layers inside."""
        call_stage = self.call_stage
        if call_stage is None and node is not None:
            call_stage = recorded_stage(node)
        layer_stage = recorded_stage(layer)
        return _Stages(
            call_stage=call_stage,
            layer_stage=layer_stage if layer_stage is not None else self.layer_stage,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    invocations: tuple[Invocation, ...]
    outputs: Sequence[Sources]


class _Walk:
    """Collects invocations; ordinals continue through nested models."""

    def __init__(self, graphs: GraphAdapter, strategy: tf.distribute.Strategy) -> None:
        self._graphs = graphs
        self._strategy = strategy
        self._count = 0

    def model(
        self,
        model: GraphModel,
        inputs: Sequence[Sources] = (frozenset(),),
        stages: _Stages | None = None,
        path: str | None = None,
    ) -> _Part:
        """Returns the calls in a functional or Sequential model."""
        if path is None:  # The layers of a functional model are called before it is made.
            path = "" if self._graphs.kind(model) == "functional" else model.name
        stages = stages or _Stages(layer_stage=recorded_stage(model))
        if self._graphs.kind(model) == "sequential":
            return self._sequential(model, path, frozenset().union(*inputs), stages)
        if len(inputs) != len(model.inputs):
            inputs = [frozenset().union(*inputs)] * len(model.inputs)
        calls = [
            node
            for node in self._graphs.nodes_by_depth(model)
            if self._graphs.kind(self._graphs.operation_of(node)) != "input"
        ]
        return self.nodes(path, model.inputs, model.outputs, inputs, stages, calls)

    def nodes(
        self,
        path: str,
        inputs: Sequence[SymbolicTensor],
        outputs: Sequence[SymbolicTensor],
        input_sources: Sequence[Sources],
        stages: _Stages,
        calls: Sequence[Node] | None = None,
    ) -> _Part:
        """Returns the calls between symbolic tensors, in the order of the graph that they are.

        Without a graph, in the `call` of a model, they may be operations that no layer stands for.
        """
        operations = ("operation", "operation layer") if calls is None else ("operation",)
        sources = dict(zip(map(id, inputs), input_sources, strict=True))
        if calls is None:
            calls = _post_order(self._graphs, outputs, set(sources))
        invocations = []
        for node in calls:
            tensors = self._graphs.operands_of(node)
            operands = [sources.get(id(tensor), frozenset()) for tensor in tensors]
            layer, result_tensors = self._graphs.operation_of(node), self._graphs.results_of(node)
            if self._graphs.kind(layer) in operations:
                results: Sequence[Sources] = [frozenset().union(*operands)] * len(result_tensors)
            else:
                invocation, results = self._call(layer, node, path, operands, stages)
                invocations.append(invocation)
            sources.update(zip(map(id, result_tensors), results, strict=True))
        results = [sources.get(id(tensor), frozenset()) for tensor in outputs]
        return _Part(invocations=tuple(invocations), outputs=results)

    def _sequential(self, model: GraphModel, path: str, source: Sources, stages: _Stages) -> _Part:
        invocations = []
        for layer in model.layers:
            invocation, results = self._call(layer, None, path, [source], stages)
            invocations.append(invocation)
            source = frozenset().union(*results)
        return _Part(invocations=tuple(invocations), outputs=[source])

    def _call(
        self, layer: Layer, node: Node | None, path: str, operands: list[Sources], stages: _Stages
    ) -> tuple[Invocation, Sequence[Sources]]:
        """Returns a call of a layer, and the origin of each of its outputs."""
        index = self._graphs.nodes(layer).index(node) if node is not None else 0
        own_path = self._graphs.path_of(layer, path)
        invocation = Invocation(layer=layer, node_index=index, path=own_path)
        inner = self._inside(layer, node, own_path, operands, stages)
        if inner is not None:
            return dataclasses.replace(invocation, parts=inner.invocations), inner.outputs
        ordinal, self._count = self._count, self._count + 1
        single = dataclasses.replace(
            invocation,
            ordinal=ordinal,
            after=frozenset().union(*operands),
            recorded_stage=stages.of(layer, node),
        )
        outputs = len(self._graphs.results_of(node)) if node is not None else 1
        return single, [frozenset({ordinal})] * outputs

    def _inside(
        self, layer: Layer, node: Node | None, path: str, operands: list[Sources], stages: _Stages
    ) -> _Part | None:
        """Returns the calls in a nested model; None if it is one piece.

        Raises:
            SymbolicCallError: A nested model has stages that cannot be seen.
        """
        kind = self._graphs.kind(layer)
        if kind in ("layer", "operation layer"):
            return None
        model = cast("GraphModel", layer)
        if kind != "subclass":
            if self._graphs.overrides_call(model):
                return None
            return self.model(model, operands, stages.within(layer, node), path)
        if node is None:  # In a Sequential, whose own build has called it.
            node = next(reversed(self._graphs.nodes(layer)), None)
        if node is None:
            return None
        call = inner_call(model, node, self._strategy)
        if isinstance(call, SymbolicCallError):
            if _hides_stages(self._graphs.layers_within(layer), stages.within(layer, node)):
                raise call
            return None
        if len(operands) != len(call.inputs):
            operands = [frozenset().union(*operands)] * len(call.inputs)
        inner = stages.within(layer, node)
        part = self.nodes(path, call.inputs, call.outputs, operands, inner)
        outputs = len(self._graphs.results_of(node))
        if len(part.outputs) == outputs:
            return part
        return _Part(
            invocations=part.invocations,
            outputs=[frozenset().union(*part.outputs)] * outputs,
        )


def _hides_stages(layers: Sequence[Layer], stages: _Stages) -> bool:
    """Returns whether layers in a nested model have stages that the model's own do not override."""
    if stages.call_stage is not None:
        return False
    return any(
        was_called_in_stage(layer)
        or (stages.layer_stage is None and recorded_stage(layer) is not None)
        for layer in layers
    )


def _of_layers(invocations: Iterable[Invocation]) -> Iterator[Invocation]:
    for invocation in invocations:
        if invocation.parts is None:
            yield invocation
        else:
            yield from _of_layers(invocation.parts)


def _post_order(
    graphs: GraphAdapter, outputs: Sequence[SymbolicTensor], stop: set[int]
) -> list[Node]:
    """Returns the nodes that compute symbolic tensors, operands first.

    Args:
        graphs: The adapter of their Keras.
        outputs: The tensors.
        stop: Identities of tensors that are given and not computed.
    """
    worklist = [(node, False) for node in _producers(graphs, reversed(outputs), stop)]
    visits: set[int] = set()
    order = []
    while worklist:
        node, operands_done = worklist.pop()
        if id(node) in visits:
            continue
        if operands_done:
            visits.add(id(node))
            order.append(node)
        else:
            worklist.append((node, True))
            operands = reversed(graphs.operands_of(node))
            worklist += [(other, False) for other in _producers(graphs, operands, stop)]
    return order


def _producers(
    graphs: GraphAdapter, tensors: Iterable[SymbolicTensor], stop: set[int]
) -> Iterator[Node]:
    for tensor in tensors:
        node = None if id(tensor) in stop else graphs.producer_of(tensor)
        if node is not None and graphs.kind(graphs.operation_of(node)) != "input":
            yield node
