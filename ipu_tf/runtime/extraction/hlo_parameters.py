"""Names, roles and layers of a program's inputs: variables, arguments, captured tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.compiler.hlo import Parameter, Role
from ipu_tf.programs.op_names import METRICS


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableRoles:
    """The variables of a program by role. All variables without one of these roles are states.

    Attributes:
        weights: Trainable variables: tf.Variables, or Keras variables, whose paths name layers.
        optimizer_state: Slots and counters of optimizers.
        states: Others, such as moving averages, listed for their names.
        metrics: The states of metrics, which belong to no layer.
        accumulators: Sums of gradients, named after the paths of their weights.
        slots: Handles of variables that an optimizer keeps, each with that of its weight.
    """

    weights: Sequence[tf.Variable] = ()
    optimizer_state: Sequence[tf.Variable] = ()
    states: Sequence[tf.Variable] = ()
    metrics: Sequence[tf.Variable] = ()
    accumulators: Sequence[tf.Variable] = ()
    slots: Sequence[tuple[tf.Tensor, tf.Tensor]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRead:
    """The first read of a variable.

    Attributes:
        handle: Its handle, an eager tensor.
        op_name: Name of the op that reads it.
        layer: Path of the layer there, or name of the scope.
    """

    handle: tf.Tensor
    op_name: str
    layer: str


def variable_parameters(places: Sequence[FirstRead], by_role: VariableRoles) -> list[Parameter]:
    """Returns the parameters of the variables at these places, in their order."""
    roles: dict[int, Role] = {}
    paths: dict[int, str] = {}
    names: dict[int, str] = {}
    kinds: tuple[tuple[Role, Sequence[Any]], ...] = (
        ("state", [*by_role.states, *by_role.metrics]),
        ("weight", by_role.weights),
        ("optimizer_state", by_role.optimizer_state),
        ("accumulator", by_role.accumulators),
    )
    for role, variables in kinds:
        for variable in variables:
            inner = _tf_variable(variable)
            key = id(inner.handle)
            roles[key] = role
            names[key] = inner.name.rpartition(":")[0] or inner.name
            if hasattr(variable, "path"):
                paths[key] = variable.path
    weights: dict[int, int] = {}
    for slot, weight in by_role.slots:  # An op says the weight of a slot, its optimizer does not.
        weights.setdefault(id(slot), id(weight))
    roles |= {slot: "optimizer_state" for slot in weights if slot not in roles}
    places_of = {id(place.handle): place for place in places}
    layers = _Layers(
        paths[id(_tf_variable(v).handle)] for v in by_role.weights if hasattr(v, "path")
    )
    metrics = {id(_tf_variable(variable).handle) for variable in by_role.metrics}
    owners = _with_parents(place.layer for place in places)
    parameters = []
    for place in places:
        key = id(place.handle)
        path = paths.get(key) or _path_at(place, names.get(key))
        role = roles.get(key, "state")
        layer = layers.of_slot(path) if role == "optimizer_state" else _owner(path, place, owners)
        layer = METRICS if key in metrics else layer
        weight = weights.get(key)
        if weight in places_of:
            first = places_of[weight]
            layer = _owner(paths.get(weight) or _path_at(first, names.get(weight)), first, owners)
        parameters.append(Parameter(name=path, role=role, layer=layer))
    return parameters


def _owner(path: str, place: FirstRead, owners: Set[str]) -> str:
    """Returns the path of the layer that has a variable.

    That in the variable's path, unless no layer of the program is called so: of a layer that was
    built on its own, before another layer contained it, the path is that of the first read. A layer
    around it may read it first, for a function that it calls.
    """
    layer = _layer_of(path)
    is_known = layer in owners or layer.startswith(f"{place.layer}/")
    return layer if is_known or not place.layer else place.layer


def _with_parents(layers: Iterable[str]) -> Set[str]:
    """Returns paths of layers, and of all layers around them."""
    paths: set[str] = set()
    for layer in layers:
        while layer and layer not in paths:
            paths.add(layer)
            layer = _layer_of(layer)
    return paths


def _path_at(place: FirstRead, name: str | None) -> str:
    """Returns a path for a variable without a path of its own."""
    if name is None:
        return place.op_name
    return f"{place.layer}/{name}" if place.layer and "/" not in name else name


def input_parameter(tensor: tf.Tensor, names: Mapping[int, str], captured: bool) -> Parameter:
    """Returns the parameter of a tensor of numbers that a program reads from outside.

    Args:
        tensor: The tensor.
        names: Names of arguments by the ids of their tensors.
        captured: Whether it is an eager tensor that the function captured.
    """
    name = names.get(id(tensor)) or tensor.name.removesuffix(":0")
    return Parameter(name=name, role="constant" if captured else "input")


class _Layers:
    """Finds the layer of an optimizer's slot: Keras names the slot after the weight.

    Args:
        paths: Paths of the weights.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._layers = {path.replace("/", "_"): _layer_of(path) for path in paths}

    def of_slot(self, path: str) -> str:
        """Returns the layer of the weight of a slot such as "adam/net_dense_kernel_momentum"."""
        name = path.rpartition("/")[2]
        while name and name not in self._layers:
            name = name.rpartition("_")[0]
        return self._layers.get(name, "")


def _layer_of(path: str) -> str:
    return path.rpartition("/")[0]


def _tf_variable(variable: Any) -> Any:
    """Returns the tf.Variable of a Keras variable, or a tf.Variable itself."""
    return variable if hasattr(variable, "handle") else variable.value
