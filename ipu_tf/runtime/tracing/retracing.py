"""Retraces functions that were traced before a program calls them, such as SavedModels.

Their graphs hold stock ops, or tile ops of another program. A program calls a copy in place of
such a function; the tracer creates the ops of the copy once more, one by one.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.base import call_path
from ipu_tf.internals.graphs import add_function, call_flat, create_op, function_in, knows_function
from ipu_tf.internals.tensorflow import (
    XLA_MUST_COMPILE,
    ConcreteFunction,
    FuncGraph,
    atomic_function_from_func_graph,
    copy_handle_data,
    function_def_to_graph,
    function_type_utils,
)
from ipu_tf.ops.kernels.twins import STOCK_OF, TWINS
from ipu_tf.runtime.tracing.call_ops import CALLS, functions_of
from ipu_tf.runtime.tracing.tracer import Tracer

_PLAIN_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_V1_LOOP = "Enter"
_serial = itertools.count()


def concrete_twin(
    tracer: Tracer, function: ConcreteFunction, arguments: Sequence[tf.Tensor]
) -> ConcreteFunction:
    """Returns `function` with tile ops of this program for all ops that have tile twins.

    It is `function` itself if it holds no such ops, or only those that `tracer` created.

    A function marked for compilation by XLA stays marked.

    Args:
        tracer: Turns stock ops into tile ops; it is active.
        function: A concrete function; its shapes need not be static.
        arguments: All its inputs, captured ones included; their shapes are static.
    """
    atomic = function.inference_fn
    key = (id(atomic), call_path.current().path, *(str(tensor.shape) for tensor in arguments))
    pair = tracer.concrete_functions.get(key)
    if pair is None:
        twin = function
        body = function.graph
        is_own = tracer.has_built(body)
        op_types = TWINS.keys() if is_own else TWINS.keys() | STOCK_OF.keys()
        if _holds(body, _nodes(body), op_types.__contains__) and _can_copy(tracer, body):
            copy = _copy(tracer, body, body.name, arguments)
            copy.variables = body.variables
            # Gradients built from the original have added outputs to its graph.
            del copy.outputs[len(function.function_type.flat_outputs) :]
            attributes = _jit_attributes(atomic)
            twin = ConcreteFunction.from_func_graph(copy, function.function_type, attributes)
            # Its call in another copy must not copy it once more.
            own = twin.inference_fn
            tracer.functions[_key(own.name.decode(), arguments)] = own
        # The original is kept as well: its id is in the key.
        pair = tracer.concrete_functions[key] = (atomic, twin)
    return pair[1]


def twin_name(tracer: Tracer, graph: FuncGraph, name: str, arguments: Sequence[tf.Tensor]) -> str:
    """Returns the name of a function in `graph`'s library that does the same as `name`, in tiles.

    It is `name` itself if there is nothing to replace.
    """
    key = _key(name, arguments)
    function = _known_function(tracer, graph, name)
    if function is None:
        return name
    twin = tracer.functions.get(key)
    if twin is None:
        twin = function
        nodes = function.cached_definition.node_def
        # The gradient of a loop renames the functions of the loop, so a copied loop needs its own.
        if tracer.source_graphs or _holds(graph, nodes, TWINS.__contains__):
            _add_callees(tracer, graph, nodes)
            with graph.as_default():
                shapes = [tensor.shape.as_proto() for tensor in arguments]
                body = function_def_to_graph(function.cached_definition, input_shapes=shapes)
            if _can_copy(tracer, body):
                new_name = f"{name}_tiles_{next(_serial)}"
                copy = _copy(tracer, body, new_name, arguments)
                attributes = _jit_attributes(function)
                twin = atomic_function_from_func_graph(new_name, copy, attributes)
        tracer.functions[key] = twin
    if not knows_function(graph, twin.name):  # Those of v1 cannot be added, but are known.
        add_function(graph, twin)
    return name if twin is function else twin.name.decode()


def _known_function(tracer: Tracer, graph: FuncGraph, name: str) -> Any:
    """Returns the function called `name` that `graph` or a copied graph knows, else None."""
    functions = (_function_of(library, name) for library in (graph, *tracer.source_graphs))
    return next((function for function in functions if function is not None), None)


def _add_callees(tracer: Tracer, graph: FuncGraph, nodes: Iterable[Any]) -> None:
    """Adds the functions that nodes call to the library of `graph`, in which a graph is made."""
    for node in nodes:
        for name in (
            function.name for value in node.attr.values() for function in functions_of(value)
        ):
            callee = None if knows_function(graph, name) else _known_function(tracer, graph, name)
            if callee is not None:
                add_function(graph, callee)


def _key(name: str, arguments: Sequence[tf.Tensor]) -> str:
    """Returns the key that distinguishes calls of library functions."""
    return f"{name}{[tensor.shape for tensor in arguments]}"


def _can_copy(tracer: Tracer, body: FuncGraph) -> bool:
    """Whether `body` can be copied op by op; with v1 loops it cannot, and is recorded as native."""
    operations = body.get_operations()
    if not any(op.type == _V1_LOOP for op in operations):
        return True
    for op in operations:
        if op.type in TWINS:
            tracer.add_native(op.type, op.name, "it is in a function with v1 loops")
    return False


def _jit_attributes(function: Any) -> dict[str, Any]:
    """Returns the attribute that makes XLA compile `function`, if it has one."""
    attributes = function.cached_definition.attr
    if XLA_MUST_COMPILE not in attributes:
        return {}
    return {XLA_MUST_COMPILE: attributes[XLA_MUST_COMPILE]}


def _copy(tracer: Tracer, body: FuncGraph, name: str, arguments: Sequence[tf.Tensor]) -> FuncGraph:
    """Returns a new graph with every op of `body` created once more.

    Args:
        tracer: Turns stock ops into tile ops; it is active.
        body: The graph.
        name: Name of the copy.
        arguments: Values of `body`'s inputs, which give the copy its static shapes.
    """
    copy = FuncGraph(name)
    sources = {
        id(parameter): value for parameter, value in zip(body.inputs, arguments, strict=True)
    }
    tensors: dict[int, tf.Tensor] = {}
    operations: dict[str, tf.Operation] = {}
    with copy.as_default(), tracer.copying(body):
        for op in _in_order(body):
            inputs = [tensors[id(tensor)] for tensor in op.inputs]
            controls = [operations[control.name] for control in op.control_inputs]
            with tf.control_dependencies(controls), tf.device(op.device or None):
                outputs, operations[op.name] = _recreate(tracer, body, copy, op, inputs)
            for old_output, output in zip(op.outputs, outputs, strict=True):
                source = sources.get(id(old_output), old_output)
                output.set_shape(old_output.shape)
                if output.dtype in (tf.resource, tf.variant):
                    copy_handle_data(source, output)
                else:
                    output.set_shape(source.shape)
                tensors[id(old_output)] = output
    copy.inputs = [tensors[id(tensor)] for tensor in body.inputs]
    copy.outputs = [tensors[id(tensor)] for tensor in body.outputs]
    copy.control_outputs = [operations[op.name] for op in body.control_outputs]
    return copy


def _recreate(
    tracer: Tracer,
    body: FuncGraph,
    copy: FuncGraph,
    op: tf.Operation,
    inputs: list[tf.Tensor],
) -> tuple[Sequence[tf.Tensor], tf.Operation]:
    """Creates `op` of `body` in `copy`; returns its outputs and the operation that runs it."""
    if op.type in _PLAIN_CALLS:
        # Called as a concrete function, which gives the call its gradient.
        twin = concrete_twin(tracer, _callee(body, op), inputs)
        results = call_flat(twin, inputs)  # None if there are none.
        outputs = [] if results is None else tf.nest.flatten(results, expand_composites=True)
        return outputs, copy.get_operations()[-1]
    if op.type not in CALLS:
        for value in op.node_def.attr.values():
            for callee in functions_of(value):
                add_function(copy, _function_of(body, callee.name))
    new = create_op(
        copy,
        op.type,
        inputs,
        dtypes=[tensor.dtype for tensor in op.outputs],
        name=op.name,
        attrs={key: op.node_def.attr[key] for key in op.node_def.attr},
    )
    return new.outputs, new


def _callee(body: FuncGraph, call: tf.Operation) -> ConcreteFunction:
    """Returns the function that an op of `body` calls, with the type of its results.

    Functions that TensorFlow reads from a file, with those that call them, have types without
    results.
    """
    function = _function_of(body, call.get_attr("f").name)
    if len(function.function_type.flat_outputs) == len(call.outputs):
        return ConcreteFunction(function)
    with body.as_default():
        graph = function_def_to_graph(function.cached_definition)
    graph.structured_outputs = list(graph.outputs)
    typed = function_type_utils.derive_from_graph(graph)
    return ConcreteFunction.from_func_graph(graph, typed, _jit_attributes(function))


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


def _nodes(body: FuncGraph) -> list[Any]:
    return [op.node_def for op in body.get_operations()]


def _holds(library: FuncGraph, nodes: Iterable[Any], is_match: Callable[[str], bool]) -> bool:
    """Whether one of the nodes, or of a called function's nodes, is of a wanted type."""
    names_of_functions: set[str] = set()

    def holds(nodes: Iterable[Any]) -> bool:
        for node in nodes:
            if is_match(node.op):
                return True
            callees = [f.name for value in node.attr.values() for f in functions_of(value)]
            for name in {
                *callees,
                node.op,
            } - names_of_functions:  # v1 functions are ops of that name.
                names_of_functions.add(name)
                function = _function_of(library, name)
                if function is not None and holds(function.cached_definition.node_def):
                    return True
        return False

    return holds(nodes)


def _function_of(graph: FuncGraph, name: str) -> Any:
    """Returns the function called `name` that `graph` or a graph around it knows, else None."""
    outer: Any = graph
    while outer is not None:
        if (function := function_in(outer, name)) is not None:
            return function
        outer = getattr(outer, "outer_graph", None)
    return None
