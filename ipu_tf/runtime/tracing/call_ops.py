"""The ops that call functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from ipu_tf.internals.graphs import add_function, create_op
from ipu_tf.internals.tensorflow import FuncGraph, FunctionDef, eager_context

AttrValue: TypeAlias = tf.compat.v1.AttrValue

LOOPS = frozenset({"While", "StatelessWhile"})
CONDITIONALS = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})

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


def functions_of(value: AttrValue) -> list[tf.compat.v1.NameAttrList]:
    """Returns the functions in the value of an attribute."""
    if value.HasField("func"):
        return [value.func]
    return list(value.list.func)


def definitions_of(names: Iterable[str]) -> Iterator[FunctionDef]:
    """Yields functions of TensorFlow's library, and all that they call, each once.

    Args:
        names: The names of the functions.
    """
    all_names = set(names)
    worklist = list(all_names)
    while worklist:
        definition = eager_context().get_function_def(worklist.pop())
        yield definition
        callees = callees_of(definition) - all_names
        worklist += callees
        all_names |= callees


def callees_of(definition: FunctionDef) -> set[str]:
    """Returns the names of the functions that the nodes of a function call."""
    return {
        function.name
        for node in definition.node_def
        for value in node.attr.values()
        for function in functions_of(value)
    }


def add_call(
    graph: FuncGraph,
    op_type: str,
    function: tf.types.experimental.AtomicFunction,
    inputs: Sequence[tf.Tensor],
    results: Sequence[tf.Tensor | tf.TensorSpec],
    *,
    name: str,
    attributes: Mapping[str, tf.compat.v1.AttrValue] | None = None,
) -> tf.Operation:
    """Returns a new op of a graph that calls a function of TensorFlow's library.

    Args:
        graph: The graph.
        op_type: "PartitionedCall", or "StatefulPartitionedCall" for a function with effects.
        function: The function.
        inputs: Its arguments.
        results: Tensors of the types and shapes of its results.
        name: Name of the op.
        attributes: Further attributes, as protos.
    """
    add_function(graph, function)
    attrs: dict[str, Any] = {**(attributes or {}), "f": AttrValue()}
    attrs["f"].func.name = function.name.decode()
    for key, tensors in (("Tin", inputs), ("Tout", results)):
        attrs[key] = AttrValue()
        attrs[key].list.type.extend(tensor.dtype.as_datatype_enum for tensor in tensors)
        attrs[key].list.SetInParent()
    dtypes = [tensor.dtype for tensor in results]
    op = create_op(graph, op_type, list(inputs), dtypes=dtypes, name=name, attrs=attrs)
    for output, tensor in zip(op.outputs, results, strict=True):
        output.set_shape(tensor.shape)
    return op
