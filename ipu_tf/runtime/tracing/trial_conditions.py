"""Conditions of loops that hold for a number of iterations at most, while a script is tried out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import tensorflow as tf

from ipu_tf.internals.graphs import add_function, function_in, function_type_of
from ipu_tf.internals.tensorflow import FuncGraph, FunctionDef
from ipu_tf.runtime.tracing.call_ops import AttrValue, functions_of
from ipu_tf.runtime.tracing.function_copies import library_function

_serial = itertools.count()


def with_limit(
    graph: FuncGraph,
    inputs: Sequence[tf.Tensor],
    attrs: Mapping[str, tf.compat.v1.AttrValue],
    most: int,
) -> Mapping[str, tf.compat.v1.AttrValue] | None:
    """Returns the attributes of a loop that ends after `most` iterations.

    TensorFlow's loops count their iterations in their first input, and have the most of them in the
    second.

    Args:
        graph: The graph that gets the loop.
        inputs: Its inputs.
        attrs: Its attributes.
        most: Its iterations.

    Returns:
        The attributes; None if the loop ends by then as it is, or does not count.
    """
    (callee,) = functions_of(attrs["cond"])
    function = function_in(graph, callee.name)
    if function is None or len(inputs) < 2 or inputs[0].dtype != tf.int32:
        return None
    definition = FunctionDef()
    definition.CopyFrom(function.cached_definition)
    if tf.get_static_value(inputs[0]) != 0 or _ends_by(definition, inputs, most):
        return None
    definition.signature.name = f"{callee.name}_tried_{next(_serial)}"
    _add_limit(definition, most)

    def find(name: str) -> FunctionDef:
        copy = cast(tf.types.experimental.AtomicFunction, function_in(graph, name))
        return copy.cached_definition

    copy = library_function(
        definition,
        find,
        lambda _: None,
        lambda name: f"{name}_of_{definition.signature.name}",
        function_type_of(definition),
    )
    add_function(graph, copy)
    value = AttrValue()
    value.func.name = definition.signature.name
    return {**attrs, "cond": value}


def _ends_by(definition: Any, inputs: Sequence[tf.Tensor], most: int) -> bool:
    """Returns whether a loop is known to have few iterations: it counts to a constant."""
    arguments = [argument.name for argument in definition.signature.input_arg]
    constants = {
        node.name: tf.make_ndarray(node.attr["value"].tensor)
        for node in definition.node_def
        if node.op == "Const"
    }
    for node in definition.node_def:
        if node.op != "Less" or node.input[0] not in arguments:
            continue
        first = tf.get_static_value(inputs[arguments.index(node.input[0])])
        if node.input[1] in arguments:
            end = tf.get_static_value(inputs[arguments.index(node.input[1])])
        else:
            end = constants.get(node.input[1].partition(":")[0])
        if first is not None and end is not None and end - first <= most:
            return True
    return False


def _add_limit(definition: Any, most: int) -> None:
    """Makes a condition false once the counter, its first argument, reaches `most`."""
    (result,) = definition.signature.output_arg
    holds = definition.ret[result.name]
    counter = definition.signature.input_arg[0].name
    limit = definition.node_def.add(name="tried_limit", op="Const")
    limit.attr["dtype"].type = tf.int32.as_datatype_enum
    limit.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(most, tf.int32))
    before = definition.node_def.add(name="tried_before", op="Less")
    before.input.extend([counter, "tried_limit:output:0"])
    before.attr["T"].type = tf.int32.as_datatype_enum
    both = definition.node_def.add(name="tried_condition", op="LogicalAnd")
    both.input.extend([holds, "tried_before:z:0"])
    definition.ret[result.name] = "tried_condition:z:0"
