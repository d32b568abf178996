"""Function calls and control flow inside a traced program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ipu_tf._private import FuncGraph
from ipu_tf.runtime import foreign

if TYPE_CHECKING:
    from ipu_tf.runtime.tracer import Tracer

AttrValue = tf.compat.v1.AttrValue

CALLS: Mapping[str, int] = {
    "PartitionedCall": 0,
    "StatefulPartitionedCall": 0,
    "While": 0,
    "StatelessWhile": 0,
    "If": 1,
    "StatelessIf": 1,
    "Case": 1,
    "StatelessCase": 1,
}
"""Ops that call functions, with the number of inputs that are not arguments of these functions."""

_LOOPS = ("While", "StatelessWhile")


def prepare(
    tracer: Tracer,
    graph: FuncGraph,
    op_type: str,
    inputs: Sequence[tf.Tensor],
    attrs: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the attributes to create a call with, so that what it calls runs as tile ops."""
    prepared = dict(attrs)
    if op_type in _LOOPS and tracer.draws_random_bits:
        # Iterations that overlap would draw from their streams in no fixed order.
        prepared["parallel_iterations"] = AttrValue(i=1)
    arguments = inputs[CALLS[op_type] :]
    for key, value in attrs.items():
        names = [function.name for function in functions_of(value)]
        twins = [foreign.twin_name(tracer, graph, name, arguments) for name in names]
        if twins != names:
            prepared[key] = _renamed(value, twins)
    return prepared


def functions_of(value: Any) -> list[Any]:
    """Returns the functions that an attribute names."""
    if value.HasField("func"):
        return [value.func]
    return list(value.list.func)


def _renamed(value: Any, names: Sequence[str]) -> Any:
    renamed = AttrValue()
    renamed.CopyFrom(value)
    for function, name in zip(functions_of(renamed), names, strict=True):
        function.name = name
    return renamed
