"""The calls of a model's layers, as pipelines see them.

The room of each Keras registers its `GraphAdapter` with `graphs_of`. It has no state.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeAlias, TypeVar

import tensorflow as tf

Kind: TypeAlias = Literal[
    "input", "operation", "operation layer", "layer", "sequential", "functional", "subclass"
]
"""What makes symbolic tensors: the inputs of a graph, an operation that is no layer, one that is a
layer of functional models alone, a layer, or a model that is a list of layers, a graph of them, or
a `call` of its own."""

Node: TypeAlias = object
"""One symbolic call, as its Keras records it."""

SymbolicTensor: TypeAlias = object
"""A tensor between symbolic calls."""

Structure: TypeAlias = object
"""Tuples, lists and dictionaries of anything."""

StructureT = TypeVar("StructureT", bound=Structure)
"""The kind of a structure that a function maps."""


class Layer(Protocol):
    """A layer of some Keras."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def variables(self) -> Sequence[object]:
        """Its variables."""


class GraphModel(Layer, Protocol):
    """A model of some Keras."""

    @property
    def layers(self) -> Sequence[Layer]:
        """Its layers, without those inside of them; those of a Sequential in their order."""

    @property
    def inputs(self) -> Sequence[SymbolicTensor]:
        """The inputs of a functional model."""

    @property
    def outputs(self) -> Sequence[SymbolicTensor]:
        """The outputs of a functional model."""

    @property
    def built(self) -> bool:
        """Whether it has its variables."""

    @property
    def compute_dtype(self) -> str:
        """The type that it computes with."""

    @property
    def distribute_strategy(self) -> tf.distribute.Strategy:
        """The strategy in whose scope it was made."""

    def call(self, *args: Structure, **kwargs: Structure) -> Structure:
        """Returns its outputs."""

    def get_build_config(self) -> Mapping[str, object] | None:
        """Returns the shapes that it was built for."""


class GraphAdapter(Protocol):
    """The symbolic calls of the layers of some Keras."""

    def kind(self, operation: object) -> Kind:
        """Returns what an operation, a layer or a model is."""

    def overrides_call(self, model: GraphModel) -> bool:
        """Returns whether a functional or Sequential model overrides `call`."""

    def layers_within(self, model: Layer) -> Sequence[Layer]:
        """Returns all layers in a model, those of nested models and layers, too, but not itself."""

    def path_of(self, layer: Layer, parent: str) -> str:
        """Returns the path of a layer that is called in a parent, as programs name it."""

    def momentum_of_statistics(self, layer: Layer) -> float | None:
        """Returns the momentum of a batch normalization's moving statistics, None of others."""

    def nodes(self, layer: Layer) -> Sequence[Node]:
        """Returns the symbolic calls of a layer, in their order."""

    def nodes_by_depth(self, model: GraphModel) -> Sequence[Node]:
        """Returns the calls of a functional model, those farthest from its outputs first."""

    def producer_of(self, tensor: SymbolicTensor) -> Node | None:
        """Returns the call that makes a symbolic tensor, None if none has made it."""

    def operation_of(self, node: Node) -> Layer:
        """Returns the operation that is called."""

    def operands_of(self, node: Node) -> Sequence[SymbolicTensor]:
        """Returns the symbolic tensors that a call takes."""

    def results_of(self, node: Node) -> Sequence[SymbolicTensor]:
        """Returns the symbolic tensors that a call makes."""

    def arguments_of(self, node: Node) -> tuple[Sequence[Structure], Mapping[str, Structure]]:
        """Returns the positional and the keyword arguments of a call."""

    def fresh_tensor(self, shape: Sequence[int | None], dtype: str) -> SymbolicTensor:
        """Returns a new symbolic tensor."""

    def tensors_in(self, structure: Structure) -> Sequence[SymbolicTensor]:
        """Returns the symbolic tensors of a structure."""

    def naming(self, model: GraphModel) -> AbstractContextManager[object]:
        """Returns a context in which layers that a model builds get paths in it."""


@functools.singledispatch
def graphs_of(layer: object) -> GraphAdapter:
    """Returns the adapter of the Keras of a layer or a model.

    Raises:
        TypeError: It is no layer of a Keras that pipelines know.
    """
    raise TypeError(
        "Pipeline stages are made of layers of Keras: pass a keras.Layer, or a model that was made "
        f"in the scope of an IPUStrategy. Received: {layer!r} of type {type(layer).__name__}."
    )
