"""How much the gradient of a loop has to keep: one value for each iteration of the loop.

TensorFlow keeps these values on stacks that the loop fills and its gradient empties. On the
machine, as in XLA, a stack has a fixed size. That is `maximum_iterations` where the loop has one;
elsewhere it is the loop's trip count, which its HLO tells. So a function with such loops is read
twice: with stacks of any size, to count, and with those of the right size.

Loops are known by the functions of their bodies: XLA names computations after them, and changes the
names of ops where it inlines functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.passes import pipeline

LOOPS = frozenset({"While", "StatelessWhile"})
STACK = "EmptyTensorList"
ANY_SIZE = 1
"""Of a stack in a function that is only read to count its loops."""

_SIZE_INPUT = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Loop:
    """A loop of a function.

    Attributes:
        op_name: Name of its op.
        body: Name of the function that is its body.
    """

    op_name: str
    body: str


def trip_bounds(module: Module, suffix: str) -> dict[str, int]:
    """Returns how often loops run at most, by the names of their bodies.

    Loops of unknown length are left out.

    Args:
        module: A module as it was read.
        suffix: A pattern of what was added to the names of the bodies.
    """
    bounds: dict[str, int] = {}
    unknown: set[str] = set()
    for computation in pipeline.count_loops(module).computations.values():
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


def unbounded_stacks(function: Any) -> Iterator[tuple[str, Loop]]:
    """Yields the stacks of a function that have no size, each with the loop that fills it.

    Args:
        function: A FunctionDef.
    """
    nodes = {node.name: node for node in function.node_def}
    for node in function.node_def:
        if node.op not in LOOPS:
            continue
        loop = Loop(op_name=node.name, body=node.attr["body"].func.name)
        for name in node.input:
            source = nodes.get(name.partition(":")[0])
            if source is not None and source.op == STACK and _is_unbounded(source, nodes):
                yield source.name, loop


def set_size(function: Any, stack: Any, size: int) -> None:
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


def _is_unbounded(stack: Any, nodes: Mapping[str, Any]) -> bool:
    size = nodes.get(stack.input[_SIZE_INPUT].partition(":")[0])
    while size is not None and size.op == "Identity":
        size = nodes.get(size.input[0].partition(":")[0])
    if size is None or size.op != "Const":
        return False
    return bool(tf.make_ndarray(size.attr["value"].tensor) < 0)
