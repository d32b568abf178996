"""Reads the names of ops: name scope, enclosing calls, and layer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ipu_tf.compiler.hlo.module import LOSS, METRICS

__all__ = [
    "LOSS",
    "METRICS",
    "LayerScopes",
    "is_gradient",
    "own_name",
    "scope_of",
    "without_calls",
]

# The compiler puts the names of the calls before that of an op of a called function.
_CALLS = re.compile(r"(?:^|(?<=/))(?:Stateful)?PartitionedCall(?:_\d+)?/")
# Gradients are in the scope of the op they are of; those of a loop's body once more.
_GRADIENTS = re.compile(r".*\b(gradient_tape|gradients)/")
_FIRST_GRADIENTS = re.compile(r".*?\b(gradient_tape|gradients)/")
_GRADIENT = re.compile(r"\bgradient(_tape|s)\b")


def own_name(op_name: str) -> str:
    """Returns the name of an op in its function, given its name in a device program.

    "block/PartitionedCall/dense/MatMul" is "dense/MatMul" of a function called in "block".
    """
    return _CALLS.split(op_name)[-1]


def without_calls(op_name: str) -> str:
    """Returns the name of an op with the scopes of its enclosing calls but without the calls.

    "block/PartitionedCall/dense/MatMul" is "block/dense/MatMul". If the ops of a
    function already have the scope of its call in their names, it appears once.
    """
    path = ""
    for part in _CALLS.split(op_name):
        path = part if part.startswith(path) else path + part
    return path


def is_gradient(op_name: str) -> bool:
    """Returns whether an op computes a gradient, by its name."""
    return _GRADIENT.search(op_name) is not None


def scope_of(op_name: str) -> str:
    """Returns the name scope of an op, "" at the top level.

    Gradients carry the scope of the op they are the gradient of:
    "gradient_tape/sequential/dense/MatMul/MatMul_1" belongs to "sequential/dense".
    """
    parts = op_name.strip("/").split("/")
    if "gradient_tape" in parts:
        return "/".join(parts[parts.index("gradient_tape") + 1 : -2])
    return "/".join(parts[:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerScopes:
    """Maps name scopes of ops to Keras layers.

    Attributes:
        paths: Path of the layer by name scope.
        optimizers: Name scopes in which Keras optimizers update weights.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    optimizers: frozenset[str] = frozenset()

    def layer_of(self, op_name: str) -> str:
        """Returns the path of the layer of an op, "" where no scope around it is a layer's."""
        op_name = without_calls(op_name)
        # Sums of a loop's gradients have the scope of the loop only before the last mark.
        for scope in (_GRADIENTS.sub("", op_name), _FIRST_GRADIENTS.sub("", op_name, count=1)):
            while scope:
                scope = scope.rpartition("/")[0]
                if scope in self.paths:
                    return self.paths[scope]
        return ""

    def updates_weights(self, op_name: str) -> bool:
        """Returns whether an op is part of a Keras optimizer."""
        scope = without_calls(op_name).rpartition("/")[0]
        return any(f"{scope}/".startswith(f"{optimizer}/") for optimizer in self.optimizers)

    def layer_or_scope(self, op_name: str) -> str:
        """Returns the path of the layer of an op, or its name scope."""
        return self.layer_of(op_name) or scope_of(without_calls(op_name))
