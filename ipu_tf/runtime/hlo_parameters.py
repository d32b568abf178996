"""Names, roles and layers of what a program reads: variables, arguments, captured tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_tf.compiler.hlo import Parameter, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The variables of a program by what they are for. Those of none of these kinds are states.

    Attributes:
        weights: Trainable variables: tf.Variables, or Keras variables, whose paths name layers.
        optimizer_state: Slots and counters of optimizers.
    """

    weights: Sequence[Any] = field(default_factory=tuple)
    optimizer_state: Sequence[Any] = field(default_factory=tuple)


def variable_parameters(
    handles: Sequence[tf.Tensor], known: Variables | None, graph_variables: Iterable[tf.Variable]
) -> list[Parameter]:
    """Returns what the variables with these handles are, in their order.

    Args:
        handles: Eager resource tensors.
        known: Their kinds, where the caller knows them. Otherwise trainable variables are weights
            and others states.
        graph_variables: The variables that the graph knows; they have names.
    """
    found = list(graph_variables)
    if known is None:
        known = Variables(weights=[v for v in found if v.trainable])
    paths: dict[int, str] = {id(v.handle): v.name.rpartition(":")[0] or v.name for v in found}
    roles: dict[int, Role] = {}
    kinds: tuple[tuple[Role, Sequence[Any]], ...] = (
        ("weight", known.weights),
        ("optimizer_state", known.optimizer_state),
    )
    for role, variables in kinds:
        for variable in variables:
            handle = id(_tf_variable(variable).handle)
            roles[handle] = role
            paths[handle] = getattr(variable, "path", None) or paths.get(handle, variable.name)
    layers = _Layers(paths[id(_tf_variable(v).handle)] for v in known.weights)
    parameters = []
    for index, handle in enumerate(handles):
        path = paths.get(id(handle), f"variable_{index}")
        role = roles.get(id(handle), "state")
        layer = layers.of_slot(path) if role == "optimizer_state" else _layer_of(path)
        parameters.append(Parameter(name=path, role=role, layer=layer))
    return parameters


def input_parameter(tensor: tf.Tensor, names: Mapping[int, str], captured: bool) -> Parameter:
    """Returns what a tensor of numbers is that a program reads from outside.

    Args:
        tensor: The tensor.
        names: Names of arguments by the ids of their tensors.
        captured: Whether it is an eager tensor that the function captured.
    """
    name = names.get(id(tensor)) or tensor.name.removesuffix(":0")
    return Parameter(name=name, role="constant" if captured else "input")


class _Layers:
    """Finds the layer that an optimizer's slot serves: Keras names it after the weight.

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
