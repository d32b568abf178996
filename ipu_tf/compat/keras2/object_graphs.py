"""Reads weights from the checkpoints and SavedModels that Keras 2 itself wrote.

Such a file has the graph of the objects that held the variables, with the names of attributes on
its edges. Layers of Keras 3 have the same attributes, so a walk over both finds the variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2.optimizer_slots import get_slot_names, slot_in
from ipu_tf.internals.keras_layers import set_variable
from ipu_tf.internals.tensorflow import TrackableObjectGraph

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"
_ROOTS = ("model", "net")
_WITH_WEIGHTS = "layer_with_weights-"
_OF_OPTIMIZERS = "optimizer"

_LISTS_OF_ALL = frozenset(
    {"keras_api", "layers", "non_trainable_variables", "trainable_variables", "variables"}
)
"""Edges of SavedModels to what other edges lead to, too."""

_LISTS_OF_STATE = frozenset({"_trainable_variables", "_variables"})
"""Edges of optimizers to what other edges lead to, too."""

_RENAMED: Mapping[type, Mapping[str, str]] = MappingProxyType(
    {keras.layers.Normalization: {"mean": "adapt_mean", "variance": "adapt_variance"}}
)


class ObjectGraph:
    """The objects of a checkpoint.

    Args:
        path: The checkpoint, without the ending of its files.

    Raises:
        ValueError: The checkpoint has no graph of objects.
    """

    def __init__(self, path: str) -> None:
        self._reader = tf.train.load_checkpoint(path)
        if not self._reader.has_tensor(_GRAPH):
            raise ValueError(
                f"The checkpoint {path!r} has no graph of objects: TensorFlow 1 wrote it. Save the "
                "weights as `.h5` there."
            )
        self._nodes = TrackableObjectGraph.FromString(self._reader.get_tensor(_GRAPH)).nodes
        self._set: dict[int, keras.Variable] = {}

    def set_weights(self, model: keras.Model) -> list[keras.Variable]:
        """Sets the weights of a model that exist and were not set yet; returns all that are set.

        Raises:
            ValueError: A value does not fit its weight.
        """
        found = self._weights_of(model)
        for node, variable in found.items():
            if id(variable) not in self._set:
                self._set_fitting(variable, node)
                self._set[id(variable)] = variable
        return list(found.values())

    def set_optimizer(self, optimizer: Any, model: keras.Model) -> None:
        """Sets the state of the built optimizer of a model if the checkpoint has one."""
        root = self._root()
        node = self._child(root, _OF_OPTIMIZERS) or self._child(0, _OF_OPTIMIZERS)
        if node:
            self._restore_optimizer(optimizer, node, self._weights_of(model))

    def _weights_of(self, model: keras.Model) -> dict[int, keras.Variable]:
        """Returns the weights of a model by their nodes."""
        return dict(self._variables_below(self._root(), model, set()))

    def _root(self) -> int:
        """Returns the node of the model: the root, or the `model` of a `tf.train.Checkpoint`."""
        found = (self._child(0, name) for name in _ROOTS)
        return next((node for node in found if node), 0)

    def _child(self, node: int, name: str) -> int | None:
        children = self._nodes[node].children
        return next((child.node_id for child in children if child.local_name == name), None)

    def _variables_below(
        self, node: int, owner: Any, seen: set[int]
    ) -> Iterator[tuple[int, keras.Variable]]:
        """Yields the nodes of variables below a node, with the variables below an object."""
        if isinstance(owner, keras.Variable):
            if self._key_of(node) is not None:
                yield node, owner
            return
        if node in seen:
            return
        seen.add(node)
        for child in self._nodes[node].children:
            below = _below(owner, child.local_name)
            if below is not None:
                yield from self._variables_below(child.node_id, below, seen)

    def _key_of(self, node: int) -> str | None:
        attributes = self._nodes[node].attributes
        return next((a.checkpoint_key for a in attributes if a.name == _VALUE), None)

    def _value_of(self, node: int) -> Any:
        return self._reader.get_tensor(self._key_of(node))

    def _restore_optimizer(
        self, optimizer: Any, node: int, variables: Mapping[int, keras.Variable]
    ) -> None:
        """Sets the count of updates, the learning rate and the slots of an optimizer."""
        for name, own in (("iter", optimizer.iterations), ("learning_rate", None)):
            found = self._child(node, name)
            if found and self._key_of(found) is not None:
                value = self._value_of(found)
                if own is not None:
                    set_variable(own, value)
                else:
                    optimizer.learning_rate = float(value)
        names = get_slot_names(optimizer)
        for slot in self._nodes[node].slot_variables:
            variable = variables.get(slot.original_variable_node_id)
            if variable is not None and slot.slot_name in names:
                value = self._value_of(slot.slot_variable_node_id)
                set_variable(slot_in(optimizer, variable, slot.slot_name), value)
        self._restore_attributes(optimizer, node)

    def _restore_attributes(self, optimizer: Any, node: int) -> None:
        """Sets the variables that an optimizer of Keras 2.11 or later kept in its attributes.

        They have the names of Keras 3, which took these optimizers over. A list has a variable for
        each that is trained, in their order.
        """
        for child in self._nodes[node].children:
            own = getattr(optimizer, child.local_name, None)
            if child.local_name in _LISTS_OF_STATE:
                continue
            if isinstance(own, keras.Variable) and self._key_of(child.node_id) is not None:
                self._set_fitting(own, child.node_id)
            for position, variable in enumerate(own if isinstance(own, list) else ()):
                part = self._child(child.node_id, str(position))
                if part is not None and self._key_of(part) is not None:
                    self._set_fitting(variable, part)

    def _set_fitting(self, variable: keras.Variable, node: int) -> None:
        """Sets a variable to the value of a node; checks that it fits."""
        value = self._value_of(node)
        _check_shape(value, variable)
        set_variable(variable, value)


def _check_shape(value: Any, variable: keras.Variable) -> None:
    """Checks that a value of a file fits a variable.

    Raises:
        ValueError: It does not.
    """
    if value.shape != tuple(variable.shape):
        raise ValueError(
            f"The checkpoint does not hold the weights of this model: {variable.path} has the "
            f"shape {tuple(variable.shape)}. Received: a value of shape {value.shape}."
        )


def _below(owner: Any, name: str) -> Any:
    """Returns what an edge of a name leads to from an object, None if that has no variables."""
    if isinstance(owner, keras.Model) and name.startswith(_WITH_WEIGHTS):
        layers = [layer for layer in owner.layers if layer.weights]
        number = int(name.removeprefix(_WITH_WEIGHTS))
        return layers[number] if number < len(layers) else None
    if isinstance(owner, list | tuple):
        return owner[int(name)] if name.isdecimal() and int(name) < len(owner) else None
    if isinstance(owner, Mapping):
        return owner.get(name)
    if name in _LISTS_OF_ALL or not isinstance(owner, keras.Layer):
        return None
    names = next((names for base, names in _RENAMED.items() if isinstance(owner, base)), {})
    found = getattr(owner, names.get(name, name), None)
    kinds = (keras.Variable, keras.Layer, list, tuple, Mapping)
    return found if isinstance(found, kinds) else None
