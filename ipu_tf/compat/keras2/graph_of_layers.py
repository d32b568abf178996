"""The graph of a functional model, as scripts of Keras 2 walk it to copy or change a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.spellings.spelling import Notify, Spelling, called_by_library
from ipu_tf.internals.keras import KerasCallSpec, KerasHistory, KerasNode
from ipu_tf.internals.keras_graphs import inbound_nodes, outbound_nodes
from ipu_tf.internals.patches import Patch, Wrap

_SYMBOLIC_REFERENCES = Patch(keras.KerasTensor, "ref", "symbolic tensors may be keys", is_new=True)
_GRAPH_OF_LAYERS = tuple(
    Patch(owner, name, "scripts walk the graph of layers", is_new=True)
    for owner, name in (
        (KerasHistory, "layer"),
        (KerasNode, "layer"),
        (KerasNode, "outbound_layer"),
        (KerasNode, "call_args"),
        (KerasNode, "call_kwargs"),
        (keras.Layer, "_name"),
        (keras.Metric, "_name"),
        (keras.Layer, "inbound_nodes"),
        (keras.Layer, "outbound_nodes"),
    )
)
_INPUTS_OF_INPUTS = Patch(
    keras.layers.InputLayer, "input", "the input of an input layer is its output"
)
_CALL_ARGUMENTS = Patch(KerasCallSpec, "__init__", "layers may take shapes beside tensors")
_SYMBOLIC_CALLS = Patch(KerasNode, "__init__", "layers may return shapes and numbers")


class SymbolicReference:
    """A symbolic tensor as a key: equal to other references of the same tensor.

    Args:
        tensor: The tensor.
    """

    def __init__(self, tensor: keras.KerasTensor) -> None:
        self._tensor = tensor

    def __hash__(self) -> int:
        return id(self._tensor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicReference) and self._tensor is other._tensor

    def deref(self) -> keras.KerasTensor:
        """Returns the tensor."""
        return self._tensor


def _operation(history_or_node: Any) -> Any:
    return history_or_node.operation


def _set_name(layer: keras.Layer, name: str) -> None:
    layer.name = name


_READ: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "_name": lambda layer: layer.name,
        "call_args": lambda node: tuple(node.arguments.args),
        "call_kwargs": lambda node: dict(node.arguments.kwargs),
        "inbound_nodes": inbound_nodes,
        "layer": _operation,
        "outbound_layer": _operation,
        "outbound_nodes": outbound_nodes,
    }
)


def _property(name: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of a property that tells a part of the graph."""
    read = _READ[name]

    def of_notify(notify: Notify) -> Wrap:
        def get(owner: Any) -> Any:
            if called_by_library():
                # Keras reads all attributes of a layer that it saves.
                raise AttributeError(name)
            notify()
            return read(owner)

        return lambda stock: property(get, _set_name if name == "_name" else None)

    return of_notify


def _reference(notify: Notify) -> Wrap:
    """Returns the factory of the method `ref` of symbolic tensors."""

    def ref(tensor: keras.KerasTensor) -> SymbolicReference:
        notify()
        return SymbolicReference(tensor)

    return lambda stock: ref


def _input_of_inputs(notify: Notify) -> Wrap:
    """Returns the factory of the property `input` of input layers: it is their output."""

    def wrap(stock: property) -> property:
        def get(layer: keras.layers.InputLayer) -> Any:
            if called_by_library():
                assert stock.fget is not None
                return stock.fget(layer)
            notify()
            return layer.output

        return property(get)

    return wrap


def _of_tensors(notify: Notify) -> Wrap:
    """Returns the factory of `Node.__init__`, which takes outputs that are no tensors."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(
            node: Any,
            operation: Any,
            call_args: Any = None,
            call_kwargs: Any = None,
            outputs: Any = None,
        ) -> None:
            leaves = keras.tree.flatten(outputs)
            kinds = {isinstance(leaf, keras.KerasTensor) for leaf in leaves}
            if kinds == {True, False}:
                notify()
                # Keras finds a tensor among the results of a call by its position.
                outputs = [
                    leaf if isinstance(leaf, keras.KerasTensor) else _unread() for leaf in leaves
                ]
            stock(node, operation, call_args, call_kwargs, outputs)

        return init

    return wrap


def _beside_tensors(notify: Notify) -> Wrap:
    """Returns the factory of `CallSpec.__init__`, which reads arguments that hold tensors."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(
            spec: Any,
            signature: Any,
            context_arguments: Any,
            args: Any,
            kwargs: Any,
            **options: Any,
        ) -> None:
            read = {name: _tensors_of(value) for name, value in kwargs.items()}
            args = tuple(_tensors_of(value) for value in args)
            stock(spec, signature, context_arguments, args, read, **options)
            # Keras takes out the arguments that `call` does not have.
            for name in kwargs.keys() - read.keys():
                del kwargs[name]

        return init

    del notify  # The call is what it was: Keras only looks for the tensors among its arguments.
    return wrap


def _tensors_of(value: Any) -> Any:
    """Returns an argument; one of tensors and other values with None for the others."""
    if not keras.tree.is_nested(value):
        return value
    kinds = {_is_tensor(leaf) for leaf in keras.tree.flatten(value) if leaf is not None}
    if kinds != {True, False}:
        return value
    return keras.tree.map_structure(lambda leaf: leaf if _is_tensor(leaf) else None, value)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, keras.KerasTensor) or keras.ops.is_tensor(leaf)


def _unread() -> keras.KerasTensor:
    """Returns a symbolic tensor in the place of an output that the graph does not have."""
    return keras.KerasTensor((), "int32")


SPELLINGS = (
    Spelling(
        name="`tensor.ref()`, `tensor._keras_history.layer`, `layer._name`, `metric._name`, "
        "`layer.inbound_nodes`, `node.outbound_layer`, `node.call_args` of a functional model",
        keras_2="The graph of the layers, for scripts that copy or change a model.",
        here="They tell the same, and the input of an input layer is its output. What is assigned "
        "to `layer._name` is the layer's name.",
        wraps=MappingProxyType(
            {
                _SYMBOLIC_REFERENCES: _reference,
                _INPUTS_OF_INPUTS: _input_of_inputs,
                **{patch: _property(patch.name) for patch in _GRAPH_OF_LAYERS},
            }
        ),
    ),
    Spelling(
        name="a layer of a functional model that returns shapes or numbers beside tensors",
        keras_2="They became tensors.",
        here="The layers after it get them as they are.",
        wraps=MappingProxyType({_SYMBOLIC_CALLS: _of_tensors, _CALL_ARGUMENTS: _beside_tensors}),
    ),
)
