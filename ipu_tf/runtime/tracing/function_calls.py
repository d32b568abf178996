"""Function calls and control flow in a traced program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.ops.kernels import replica_context
from ipu_tf.runtime.tracing import retracing
from ipu_tf.runtime.tracing.call_ops import CALLS, LOOPS, functions_of
from ipu_tf.runtime.tracing.tracer import Tracer

AttrValue = tf.compat.v1.AttrValue


def prepare(
    tracer: Tracer,
    graph: FuncGraph,
    op_type: str,
    inputs: Sequence[tf.Tensor],
    attrs: Mapping[str, tf.compat.v1.AttrValue],
) -> dict[str, tf.compat.v1.AttrValue]:
    """Returns the attributes to create a call with, so that its functions run as tile ops."""
    attributes = dict(attrs)
    has_records = tracer.snapshots is not None and tracer.snapshots.records
    is_ordered = tracer.draws_random_bits or tracer.moves_feeds or has_records
    if op_type in LOOPS and (is_ordered or replica_context.num_replicas() > 1):
        # Overlapping iterations would draw from their streams, use feeds, record results, and meet
        # other replicas, in no fixed order.
        attributes["parallel_iterations"] = AttrValue(i=1)
    arguments = inputs[CALLS[op_type] :]
    for key, value in attrs.items():
        names = [function.name for function in functions_of(value)]
        twins = [retracing.twin_name(tracer, graph, name, arguments) for name in names]
        if twins != names:
            attributes[key] = _with_names(value, twins)
    return attributes


def _with_names(value: Any, names: Sequence[str]) -> Any:
    copy = AttrValue()
    copy.CopyFrom(value)
    for function, name in zip(functions_of(copy), names, strict=True):
        function.name = name
    return copy
