"""Plain loops of the device run fewer iterations while a script is tried out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.base import trial
from ipu_tf.internals.graphs import function_in
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.runtime.tracing.call_ops import LOOPS, functions_of
from ipu_tf.runtime.tracing.trial_conditions import with_limit

_LOG = logging.getLogger(__name__)

_NOTICE = "A loop runs at most %d of %s iterations"

_STEPS = (
    "IpuDequeue", "IpuEnqueue", "IpuReplicaGetNext", "IteratorGetNext",
    "Assign", "ResourceApply", "ResourceSparseApply",
)  # fmt: skip
"""How the types of ops begin that make an iteration a step: it moves data, or updates variables."""


ITERATIONS = "tried_iterations"
"""Name of the tensor that ends a loop of `loops.repeat`, limited whatever its body does."""


def loop_with_limit(
    graph: FuncGraph,
    op_type: str,
    inputs: Sequence[tf.Tensor],
    attrs: Mapping[str, tf.compat.v1.AttrValue],
    of_update: int,
) -> tuple[Sequence[tf.Tensor], Mapping[str, tf.compat.v1.AttrValue]]:
    """Returns the inputs and attributes of an op; a loop over steps ends at the limit of a try-out.

    A loop whose iterations are no steps may be a part of the model, which needs each of them. So
    may one that keeps a value of every iteration.

    Args:
        graph: The graph that gets the op.
        op_type: Its type.
        inputs: Its inputs.
        attrs: Its attributes.
        of_update: Iterations of a weight update; the limit is that of whole updates.
    """
    limit = trial.step_limit()
    if limit is None or op_type not in LOOPS:
        return inputs, attrs
    most = max(of_update, limit // of_update * of_update)
    places = _count_of(graph, attrs)
    if places is None:
        limited_attrs = _is_over_steps(graph, inputs, attrs) and with_limit(
            graph, inputs, attrs, most
        )
        if not limited_attrs:
            return inputs, attrs
        trial.note_cut(_LOG, _NOTICE % (most, "its"), limit)
        return inputs, limited_attrs
    first, end = (inputs[place] for place in places)
    if ITERATIONS not in end.name and not _is_over_steps(graph, inputs, attrs):
        return inputs, attrs
    ends = [tf.get_static_value(one) for one in (first, end)]
    if None not in ends and ends[1] - ends[0] <= most:
        return inputs, attrs
    count = "its" if None in ends else ends[1] - ends[0]
    trial.note_cut(_LOG, _NOTICE % (most, count), limit)
    values = list(inputs)
    values[places[1]] = tf.minimum(end, first + most)
    return values, attrs


def _count_of(graph: FuncGraph, attrs: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the places of the inputs between which a loop counts up, None for another loop.

    Its condition is that a whole number is less than another, which its body does not read: the
    loops that AutoGraph makes of `for _ in tf.range(n)`.
    """
    condition, body = (_definition(graph, attrs[name]) for name in ("cond", "body"))
    if condition is None or body is None:
        return None
    nodes = {node.name: node for node in condition.node_def}
    (result,) = condition.ret.values()
    node = nodes.get(_node_of(result))
    while node is not None and node.op == "Identity":
        node = nodes.get(_node_of(node.input[0]))
    if node is None or node.op != "Less" or not tf.as_dtype(node.attr["T"].type).is_integer:
        return None
    arguments = [argument.name for argument in condition.signature.input_arg]
    if any(name not in arguments for name in node.input[:2]):
        return None
    first, end = (arguments.index(name) for name in node.input[:2])
    unread = body.signature.input_arg[end].name
    passed_on = {n.name for n in body.node_def if n.op == "Identity" and unread in n.input}
    for reader in body.node_def:
        sources = {_node_of(source) for source in reader.input}
        if reader.name not in passed_on and (unread in sources or sources & passed_on):
            return None
    return first, end


def _node_of(source: str) -> str:
    """Returns the name of the node or the argument that an input of a node names."""
    return source.lstrip("^").partition(":")[0]


def _is_over_steps(graph: FuncGraph, inputs: Sequence[tf.Tensor], attrs: Mapping[str, Any]) -> bool:
    if any(tensor.dtype == tf.variant for tensor in inputs):
        return False
    return any(op_type.startswith(_STEPS) for op_type in _types_in(graph, attrs["body"], set()))


def _definition(graph: FuncGraph, value: Any) -> Any:
    (callee,) = functions_of(value)
    function = function_in(graph, callee.name)
    return None if function is None else function.cached_definition


def _types_in(graph: Any, value: Any, names: set[str]) -> Iterator[str]:
    """Yields the types of the ops in the functions of an attribute, and in those they call."""
    for callee in functions_of(value):
        function = None if callee.name in names else function_in(graph, callee.name)
        if function is None:
            continue
        names.add(callee.name)
        for node in function.cached_definition.node_def:
            yield node.op
            for attribute in node.attr.values():
                yield from _types_in(graph, attribute, names)
