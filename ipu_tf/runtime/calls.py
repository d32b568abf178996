"""Function calls inside a traced program.

Functions that are traced while a tracer is active already hold tile ops. Those that were traced
before (concrete functions, loaded SavedModels) are rewritten: their body is created once more, op
by op, through the tracer, as a new function of the graph's library.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ipu_tf._private import (
    ConcreteFunction,
    FuncGraph,
    atomic_function_from_func_graph,
    copy_handle_data,
    function_def_to_graph,
)
from ipu_tf.ops.twins import TWINS

if TYPE_CHECKING:
    from ipu_tf.runtime.tracer import Tracer

# Inputs of the call that are not passed on to its functions (the branch index of If and Case).
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

_XLA_MUST_COMPILE = "_XlaMustCompile"
_V1_LOOP = "Enter"
_serial = itertools.count()


def prepare(
    tracer: Tracer,
    graph: FuncGraph,
    op_type: str,
    inputs: Sequence[tf.Tensor],
    attrs: dict[str, Any],
    name: str,
) -> dict[str, Any]:
    """Returns the attributes to create a call with, so that what it calls runs as tile ops."""
    attrs = dict(attrs)
    xla = attrs.pop(_XLA_MUST_COMPILE, None)
    if xla is not None and xla.b:
        tracer.program.notes.append(
            f"'{name}' asks for jit_compile: it runs without XLA, which has no tile ops."
        )
    if op_type in ("While", "StatelessWhile") and tracer.draws_random_bits:
        # Iterations that overlap would draw from their streams in no fixed order.
        attrs["parallel_iterations"] = tf.compat.v1.AttrValue(i=1)
    arguments = inputs[CALLS[op_type] :]
    for key, value in attrs.items():
        if value.HasField("func") and value.func.name:
            renamed = _rewritten(tracer, graph, value.func.name, arguments)
            attrs[key] = _with_function(value, renamed)
        elif value.list.func:
            branches = tf.compat.v1.AttrValue()
            for function in value.list.func:
                branch = branches.list.func.add()
                branch.CopyFrom(function)
                branch.name = _rewritten(tracer, graph, function.name, arguments)
            attrs[key] = branches
    return attrs


def concrete_twin(tracer: Tracer, function: ConcreteFunction) -> ConcreteFunction:
    """Returns `function` with tile ops; itself where it holds no stock op that has a twin."""
    known = tracer.concrete_functions.get(id(function))
    if known is None:
        twin = function
        body = function.graph
        if _graph_holds_stock_twins(body, set()) and not _has_v1_loop(tracer, body):
            copy = _copy(body, body.name, function.captured_inputs)
            copy.variables = body.variables
            twin = ConcreteFunction.from_func_graph(copy, function.function_type, {})
        # The original is kept, too: its id is the key.
        known = tracer.concrete_functions[id(function)] = (function, twin)
    return known[1]


def _has_v1_loop(tracer: Tracer, body: FuncGraph) -> bool:
    """Whether `body` holds a v1 loop, which cannot be copied op by op; then it stays native."""
    operations = body.get_operations()
    if not any(op.type == _V1_LOOP for op in operations):
        return False
    for op in operations:
        if op.type in TWINS:
            tracer.add_native(op.type, op.name, "it is in a function with v1 loops")
    return True


def _with_function(value: Any, name: str) -> Any:
    renamed = tf.compat.v1.AttrValue()
    renamed.CopyFrom(value)
    renamed.func.name = name
    return renamed


def _rewritten(tracer: Tracer, graph: FuncGraph, name: str, arguments: Sequence[tf.Tensor]) -> str:
    """Returns the name of `name`'s rewritten twin in `graph`'s library, or `name` itself."""
    if not _holds_stock_twins(graph, name, set()):
        return name
    shapes = [tensor.shape for tensor in arguments]
    key = f"{name}{shapes}"
    if key not in tracer.function_names:
        definition = _function_of(graph, name).cached_definition
        with graph.as_default():
            body = function_def_to_graph(definition, input_shapes=[s.as_proto() for s in shapes])
        if _has_v1_loop(tracer, body):
            tracer.function_names[key] = name
        else:
            new_name = f"{name}_tiles_{next(_serial)}"
            copy = _copy(body, new_name, arguments)
            function = atomic_function_from_func_graph(new_name, copy, {})
            graph._add_function_recursive(function)
            tracer.function_names[key] = new_name
    return tracer.function_names[key]


def _copy(body: FuncGraph, name: str, arguments: Sequence[tf.Tensor]) -> FuncGraph:
    """Returns a new graph in which every op of `body` was created once more."""
    copy = FuncGraph(name)
    parameters = body.inputs[len(body.inputs) - len(arguments) :]
    sources = {id(parameter): value for parameter, value in zip(parameters, arguments, strict=True)}
    for function in body._functions.values():
        copy._add_function_recursive(function)
    tensors: dict[int, tf.Tensor] = {}
    operations: dict[str, tf.Operation] = {}
    with copy.as_default():
        for op in _in_order(body):
            controls = [operations[control.name] for control in op.control_inputs]
            with tf.control_dependencies(controls), tf.device(op.device or None):
                new = copy._create_op_internal(
                    op.type,
                    [tensors[id(tensor)] for tensor in op.inputs],
                    dtypes=[tensor.dtype for tensor in op.outputs],
                    name=op.name,
                    attrs={key: op.node_def.attr[key] for key in op.node_def.attr},
                )
            operations[op.name] = new
            for old_output, output in zip(op.outputs, new.outputs, strict=True):
                output.set_shape(old_output.shape)
                if output.dtype in (tf.resource, tf.variant):
                    copy_handle_data(sources.get(id(old_output), old_output), output)
                tensors[id(old_output)] = output
    copy.inputs = [tensors[id(tensor)] for tensor in body.inputs]
    copy.outputs = [tensors[id(tensor)] for tensor in body.outputs]
    copy.control_outputs = [operations[op.name] for op in body.control_outputs]
    return copy


def _in_order(body: FuncGraph) -> Iterator[tf.Operation]:
    """Yields the ops of `body`, each after those whose values or completion it needs.

    They are created almost in this order, but control inputs can be added later.
    """
    operations = {op.name: op for op in body.get_operations()}
    needs = {
        name: [*(tensor.op.name for tensor in op.inputs), *(c.name for c in op.control_inputs)]
        for name, op in operations.items()
    }
    return (operations[name] for name in graphlib.TopologicalSorter(needs).static_order())


def _holds_stock_twins(graph: FuncGraph, name: str, seen: set[str]) -> bool:
    seen.add(name)
    function = _function_of(graph, name)
    if function is None:
        return False
    nodes = function.cached_definition.node_def
    return any(node.op in TWINS for node in nodes) or any(
        _holds_stock_twins(graph, callee, seen)
        for node in nodes
        if node.op in CALLS
        for callee in _callees(node)
        if callee not in seen
    )


def _graph_holds_stock_twins(body: FuncGraph, seen: set[str]) -> bool:
    return any(
        op.type in TWINS
        or op.type in CALLS
        and any(
            _holds_stock_twins(body, callee, seen)
            for callee in _callees(op.node_def)
            if callee not in seen
        )
        for op in body.get_operations()
    )


def _callees(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.HasField("func") and value.func.name:
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _function_of(graph: FuncGraph, name: str) -> Any:
    """Returns the function called `name` that `graph` or a graph around it knows."""
    outer: Any = graph
    while outer is not None:
        if outer._is_function(name):
            return outer._get_function(name)
        outer = getattr(outer, "outer_graph", None)
    return None
