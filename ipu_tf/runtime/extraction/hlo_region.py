"""Cuts the ops of a trace out of its graph, as a separate function.

A trace may run inside another one (Keras calls `strategy.run` in its own tf.function), so its
ops lie among others. Tensors that they read from outside become arguments of the function.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.internals.graphs import is_eager, op_def_of
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import (
    FuncGraph,
    FunctionDef,
    get_read_write_resource_inputs,
    get_resource_handle_data,
)
from ipu_tf.runtime.tracing import feed_numbers

SMALL_CAPTURE_ELEMENTS = 256
"""Captured tensors of at most so many elements are constants of the function: shapes and axes that
XLA has to know are among them."""

_OUTSIDE = frozenset({"Placeholder", "IteratorGetNext", "IteratorGetNextSync"})
"""The ops that a trace creates for values from outside."""

_KINDS = ("input", "variable", "constant", "host")
_HOST_DTYPES = frozenset({tf.resource, tf.variant, tf.string})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedRegion:
    """The ops of a trace that its outputs or side effects need.

    Attributes:
        operations: In the order of their creation. That is almost their order of use: the ops that
            replace a loop when its gradient is built are created late.
        inputs: Tensors of numbers that the region reads from outside.
        variables: Handles of the variables that it uses, as tensors of the graph.
        handles: The same handles as eager tensors.
        constants: Captured tensors that become constants, with their values.
        host: Other tensors that the region reads from outside: iterators, tables, strings.
        outputs: Tensors of numbers that leave it.
    """

    operations: tuple[tf.Operation, ...]
    inputs: tuple[tf.Tensor, ...]
    variables: tuple[tf.Tensor, ...]
    handles: tuple[tf.Tensor, ...]
    constants: tuple[tuple[tf.Tensor, tf.Tensor], ...]
    host: tuple[tf.Tensor, ...]
    outputs: tuple[tf.Tensor, ...]


def cut(
    graph: FuncGraph, operations: Iterable[tf.Operation], outputs: TensorStructure
) -> TracedRegion:
    """Returns the region of `graph` that a trace created.

    Args:
        graph: The graph that was being built.
        operations: The ops of the trace, in the order of their creation.
        outputs: The results of the traced function, a structure.
    """
    flat = tf.nest.flatten(outputs, expand_composites=True)
    results = [t for t in flat if tf.is_tensor(t) and getattr(t, "graph", None) is graph]
    results = [t for t in _unique(results) if t.dtype not in _HOST_DTYPES]
    by_name = {op.name: op for op in operations if op.type not in _OUTSIDE}
    names = _live_names(by_name, results)
    inside = [op for name, op in by_name.items() if name in names]
    tensors = [tensor for op in inside for tensor in op.inputs] + results
    outside = [tensor for tensor in _unique(tensors) if tensor.op.name not in names]
    constants = _unique(tensor.op for tensor in outside if tensor.op.type == "Const")
    boundary = [tensor for tensor in outside if tensor.op.type != "Const"]
    captures = Captures()
    sources = {id(tensor): captures.source(tensor) for tensor in boundary}
    kinds: dict[str, list[tf.Tensor]] = {kind: [] for kind in _KINDS}
    for tensor in boundary:
        kinds[_kind(tensor, sources[id(tensor)])].append(tensor)
    return TracedRegion(
        operations=(*constants, *inside),
        inputs=tuple(kinds["input"]),
        variables=tuple(kinds["variable"]),
        handles=tuple(sources[id(tensor)] for tensor in kinds["variable"]),
        constants=tuple((tensor, sources[id(tensor)]) for tensor in kinds["constant"]),
        host=tuple(kinds["host"]),
        outputs=tuple(results),
    )


class Captures:
    """Maps placeholders in graphs to the eager tensors that they stand for."""

    def __init__(self) -> None:
        self._outer: dict[int, dict[int, tf.Tensor]] = {}

    def source(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the tensor from outside of all functions that a tensor of a graph stands for.

        It is eager, or the handle of a variable in a session's graph; None for what is computed.
        """
        while isinstance(graph := getattr(tensor, "graph", None), FuncGraph):
            if id(graph) not in self._outer:
                self._outer[id(graph)] = {id(inner): outer for outer, inner in graph.captures}
            outer = self._outer[id(graph)].get(id(tensor))
            if outer is None:
                return None
            tensor = outer
        return tensor if is_eager(tensor) or tensor.dtype == tf.resource else None


def function_def(region: TracedRegion, name: str) -> FunctionDef:
    """Returns the region as a FunctionDef whose arguments are its inputs, then its variables.

    Host tensors are called "host_0", "host_1", ... and no node makes them: the caller must replace
    their readers.

    Args:
        region: The region.
        name: Name of the function.
    """
    function = FunctionDef()
    function.signature.name = name
    references: dict[int, str] = {}
    references |= {id(tensor): host_name(index) for index, tensor in enumerate(region.host)}
    for index, tensor in enumerate((*region.inputs, *region.variables)):
        argument = function.signature.input_arg.add()
        argument.name = references[id(tensor)] = f"argument_{index}"
        argument.type = tensor.dtype.as_datatype_enum
    for index, (tensor, value) in enumerate(region.constants):
        references[id(tensor)] = _add_constant(function, f"captured_{index}", value)
    inside = {op.name for op in region.operations}
    orders = _resource_order(region.operations)
    for op in region.operations:
        references |= _output_references(op)
    for op in _in_order(region.operations):
        controls = {c.name for c in op.control_inputs if c.name in inside} | orders.get(
            op.name, set()
        )
        node = function.node_def.add()
        node.CopyFrom(op.node_def)
        node.ClearField("input")
        node.input.extend(references[id(tensor)] for tensor in op.inputs)
        node.input.extend(f"^{control}" for control in sorted(controls))
        if op_def_of(op).is_stateful:
            # Host ops such as Python functions have no inferred shapes.
            shapes = [tensor.shape.as_proto() for tensor in op.outputs]
            node.attr["_output_shapes"].list.shape.extend(shapes)
            function.signature.is_stateful = True
            function.signature.control_output.append(op.name)
            function.control_ret[op.name] = op.name
    for index, tensor in enumerate(region.outputs):
        result = function.signature.output_arg.add()
        result.name = f"result_{index}"
        result.type = tensor.dtype.as_datatype_enum
        function.ret[result.name] = references[id(tensor)]
    return function


def host_name(index: int) -> str:
    """Returns the name that `function_def` gives a host tensor."""
    return f"host_{index}"


def is_variable(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor is the handle of a variable, not of an iterator or a table."""
    if tensor.dtype != tf.resource:
        return False
    data = get_resource_handle_data(tensor)
    return data is not None and data.is_set and bool(data.shape_and_type)


def _live_names(by_name: Mapping[str, tf.Operation], results: Sequence[tf.Tensor]) -> set[str]:
    """Returns the names of the ops that the results or side effects need."""
    worklist = [tensor.op for tensor in results]
    worklist += [op for op in by_name.values() if op_def_of(op).is_stateful]
    names: set[str] = set()
    while worklist:
        op = worklist.pop()
        if op.name in by_name and op.name not in names:
            names.add(op.name)
            worklist += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return names


def _kind(tensor: tf.Tensor, source: Any) -> str:
    if tensor.dtype == tf.resource:
        return "variable" if source is not None and is_variable(tensor) else "host"
    if tensor.dtype in _HOST_DTYPES or feed_numbers.is_marked(tensor):
        return "host"
    is_small = source is not None and source.shape.num_elements() <= SMALL_CAPTURE_ELEMENTS
    return "constant" if is_small else "input"


def _in_order(operations: Sequence[tf.Operation]) -> Iterator[tf.Operation]:
    """Yields the ops, each after those whose values it reads."""
    by_name = {op.name: op for op in operations}
    reads = {
        name: [tensor.op.name for tensor in op.inputs if tensor.op.name in by_name]
        for name, op in by_name.items()
    }
    return (by_name[name] for name in graphlib.TopologicalSorter(reads).static_order())


def _add_constant(function: Any, name: str, value: tf.Tensor) -> str:
    node = function.node_def.add(name=name, op="Const")
    node.attr["dtype"].type = value.dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.numpy(), value.dtype))
    return f"{name}:output:0"


def _output_references(op: tf.Operation) -> dict[int, str]:
    """Returns the names of an op's outputs in a FunctionDef."""
    names = []
    for argument in op_def_of(op).output_arg:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        names += [f"{op.name}:{argument.name}:{index}" for index in range(count)]
    return {id(tensor): name for tensor, name in zip(op.outputs, names, strict=True)}


def _resource_order(operations: Sequence[tf.Operation]) -> dict[str, set[str]]:
    """Returns which ops must wait for which others, to use variables in the traced order.

    TensorFlow adds such edges only when the outermost function is finished, which is later.
    """
    last_write: dict[int, str] = {}
    reads_since: dict[int, list[str]] = {}
    after: dict[str, set[str]] = {}
    for op in operations:
        if all(tensor.dtype != tf.resource for tensor in op.inputs):
            continue
        reads, writes = get_read_write_resource_inputs(op)
        waits: set[str] = set()
        for resource in [*reads, *writes]:
            waits |= {last_write[id(resource)]} if id(resource) in last_write else set()
        for resource in writes:
            waits.update(reads_since.pop(id(resource), ()))
            last_write[id(resource)] = op.name
        for resource in reads:
            reads_since.setdefault(id(resource), []).append(op.name)
        after[op.name] = waits - {op.name}
    return after


def _unique(values: Iterable[Any]) -> list[Any]:
    return list({id(value): value for value in values}.values())
