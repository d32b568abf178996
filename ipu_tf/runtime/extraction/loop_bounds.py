"""Sizes the stacks of a loop's gradient: one value for each iteration of the loop.

TensorFlow keeps these values on stacks that the loop fills and its gradient empties. On the
machine, as in XLA, a stack has a fixed size. That is `maximum_iterations` if the loop has one;
else it is the loop's trip count, which its HLO shows. So XLA reads a function with such loops
twice: with stacks of any size, to count, and with stacks of the right size.

Loops are identified by the functions of their bodies: XLA names computations after them, and
changes the names of ops where it inlines functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.passes.simplify import count_loops
from ipu_tf.internals.tensorflow import FunctionDef, NodeDef, TensorProto
from ipu_tf.runtime.tracing.call_ops import CONDITIONALS, LOOPS, functions_of

STACK = "EmptyTensorList"
FAKE = "FakeParam"
"""The ops whose result stands for a tensor that only another branch of a conditional computes."""

ANY_SIZE = 1
"""Of a stack in a function that is only read to count its loops."""

_SIZE_INPUT = 1
_VARIANT = tf.variant.as_datatype_enum


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TracedLoop:
    """A loop of a function.

    Attributes:
        op_name: Name of its op.
        body: Name of the function that is its body.
    """

    op_name: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack that a loop in a conditional's branch fills.

    Attributes:
        node: The node that creates it.
        shape: TensorProto of the shape of its values.
        size: The largest number of values on it; -1 if the program does not set it.
        loop: The loop, if the program does not set the size.
    """

    node: NodeDef
    shape: TensorProto
    size: int
    loop: TracedLoop | None


def trip_bounds(module: Module, suffix: str) -> dict[str, int]:
    """Returns the maximum trip counts of loops, by the names of their bodies.

    Loops of unknown length are left out.

    Args:
        module: A module as XLA returned it.
        suffix: A pattern of the suffix that was added to the names of the bodies.
    """
    bounds: dict[str, int] = {}
    unknown: set[str] = set()
    for computation in count_loops(module).computations.values():
        for loop in computation:
            if loop.opcode != "while":
                continue
            body = re.sub(suffix, "", loop.computations[0])
            bound = loop.attributes.get("trip_count", loop.attributes.get("max_trip_count"))
            if bound is None:
                unknown.add(body)
            else:
                bounds[body] = max(bound, bounds.get(body, 0))
    return {body: bound for body, bound in bounds.items() if body not in unknown}


def unbounded_stacks(function: FunctionDef) -> Iterator[tuple[str, TracedLoop]]:
    """Yields the stacks of a function that have no size, each with the loop that fills it.

    Args:
        function: A FunctionDef.
    """
    nodes = {node.name: node for node in function.node_def}
    for node in function.node_def:
        if node.op not in LOOPS:
            continue
        loop = TracedLoop(op_name=node.name, body=node.attr["body"].func.name)
        for name in node.input:
            source = nodes.get(name.partition(":")[0])
            if source is not None and source.op == STACK and _is_unbounded(source, nodes):
                yield source.name, loop


def stands_for_stack(node: NodeDef) -> bool:
    """Returns whether a node stands for a stack that only another branch of a conditional fills."""
    return bool(node.op == FAKE and node.attr["dtype"].type == _VARIANT)


def stack_of(
    functions: Sequence[FunctionDef], index: int, find: Callable[[str], FunctionDef]
) -> Stack | None:
    """Returns the stack that one of a conditional's branches returns as a result.

    Args:
        functions: The FunctionDefs of the branches.
        index: Number of the result.
        find: Maps the name of a function to its FunctionDef.
    """
    for function in functions:
        nodes = {node.name: node for node in function.node_def}
        name = function.ret[function.signature.output_arg[index].name]
        while (node := nodes.get(name.partition(":")[0])) is not None and node.op != STACK:
            if node.op == "Identity":
                name = node.input[0]
            elif node.op in LOOPS:
                name = node.input[_number(name)]
            else:
                break
        if node is not None and node.op in CONDITIONALS:
            callees = [f for value in node.attr.values() for f in functions_of(value)]
            branch_stack = stack_of([find(callee.name) for callee in callees], _number(name), find)
            if branch_stack is not None:
                return branch_stack
        if node is not None and node.op == STACK:
            return _stack_of(node, nodes, function)
    return None


def _stack_of(stack: Any, nodes: Mapping[str, Any], function: Any) -> Stack | None:
    if stack.attr["element_dtype"].type == _VARIANT:
        return None  # Stacks of stacks have no type until they are filled.
    shape, size = (nodes.get(name.partition(":")[0]) for name in stack.input[:2])
    if shape is None or size is None or not shape.op == size.op == "Const":
        return None
    if (tf.make_ndarray(shape.attr["value"].tensor) < 0).any():
        return None
    return Stack(
        node=stack,
        shape=shape.attr["value"].tensor,
        size=int(tf.make_ndarray(size.attr["value"].tensor)),
        loop=dict(unbounded_stacks(function)).get(stack.name),
    )


def add_stack(function: FunctionDef, name: str, stack: Stack, size: int) -> str:
    """Adds an empty stack to a function; returns the name of its handle.

    Args:
        function: The FunctionDef.
        name: Name of the new node.
        stack: The stack to copy.
        size: The largest number of values on it.
    """
    shape = function.node_def.add(name=f"{name}/element_shape", op="Const")
    shape.attr["dtype"].type = stack.shape.dtype
    shape.attr["value"].tensor.CopyFrom(stack.shape)
    node = function.node_def.add()
    node.CopyFrom(stack.node)
    node.name = name
    node.ClearField("input")
    node.input.extend([f"{shape.name}:output:0", ""])
    set_size(function, node, size)
    return f"{name}:handle:0"


def set_size(function: FunctionDef, stack: NodeDef, size: int) -> None:
    """Gives a stack a size: the largest number of values on it.

    Args:
        function: The FunctionDef that it belongs to; a constant is added to it.
        stack: Its node.
        size: The size.
    """
    constant = function.node_def.add(name=f"{stack.name}/size", op="Const")
    constant.attr["dtype"].type = tf.int32.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(max(size, 1), tf.int32))
    stack.input[_SIZE_INPUT] = f"{constant.name}:output:0"


def _number(output: str) -> int:
    """Returns the number of a node's output from its name in a FunctionDef."""
    return int(output.rpartition(":")[2])


def _is_unbounded(stack: Any, nodes: Mapping[str, Any]) -> bool:
    size = nodes.get(stack.input[_SIZE_INPUT].partition(":")[0])
    while size is not None and size.op == "Identity":
        size = nodes.get(size.input[0].partition(":")[0])
    if size is None or size.op != "Const":
        return False
    return bool(tf.make_ndarray(size.attr["value"].tensor) < 0)
