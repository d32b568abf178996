"""Makes labels and indices out of range fail a program, on any engine.

TensorFlow's CPU kernels check the range of indices; XLA does not: a label out of range makes the
loss, and then the weights, NaN, and a gather takes the nearest row. So the tracer inserts a check
between such an op and its indices, which is one kernel for both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph, get_resource_handle_data
from ipu_tf.ops.kernels import library

CHECK = "IpuIndexCheck"
"""Type of the op that gives on indices that are in range."""

Limits = Sequence[int | None]
"""One more than the largest index, None where it is not static: of all indices, or, where there are
several limits, of each position on the last axis of the indices."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The index inputs of an op that looks values up.

    Attributes:
        indices: Number of the input with the indices.
        kind: Wording of the error: "label", "index", or "indices" for rows of several.
        limits: Maps its inputs and attributes to the limits of the indices.
    """

    indices: int
    kind: str
    limits: Callable[[Sequence[tf.Tensor], Mapping[str, Any]], Limits]


def _classes(inputs: Sequence[tf.Tensor], attrs: Mapping[str, Any]) -> Limits:
    del attrs
    return _sizes(inputs[0].shape)[-1:]


def _rows(inputs: Sequence[tf.Tensor], attrs: Mapping[str, Any]) -> Limits:
    del attrs
    return _sizes(inputs[0].shape)[:1]


def _rows_of_variable(inputs: Sequence[tf.Tensor], attrs: Mapping[str, Any]) -> Limits:
    first = attrs["batch_dims"].i if "batch_dims" in attrs else 0
    return _sizes(_variable_shape(inputs[0]))[first : first + 1]


def _along_axis(inputs: Sequence[tf.Tensor], attrs: Mapping[str, Any]) -> Limits:
    del attrs
    sizes, axis = _sizes(inputs[0].shape), tf.get_static_value(inputs[2])
    if axis is None or not -len(sizes) <= axis < len(sizes):
        return ()
    return [sizes[int(axis)]]


def _leading_axes(inputs: Sequence[tf.Tensor], attrs: Mapping[str, Any]) -> Limits:
    del attrs
    width = inputs[1].shape.as_list()[-1] if inputs[1].shape.rank else None
    return () if width is None else _sizes(inputs[0].shape)[:width]


_LOOKUPS: Mapping[str, _Lookup] = {
    "SparseSoftmaxCrossEntropyWithLogits": _Lookup(1, "label", _classes),
    "Gather": _Lookup(1, "index", _rows),
    "GatherV2": _Lookup(1, "index", _along_axis),
    "ResourceGather": _Lookup(1, "index", _rows_of_variable),
    "GatherNd": _Lookup(1, "indices", _leading_axes),
}


def checked(
    graph: FuncGraph,
    op_type: str,
    inputs: Sequence[tf.Tensor],
    attrs: Mapping[str, tf.compat.v1.AttrValue],
    name: str,
) -> Sequence[tf.Tensor]:
    """Returns the inputs for a new op of `graph`, with its indices checked if it has any.

    Args:
        graph: The graph that is being built.
        op_type: Type of the op.
        inputs: Its inputs.
        attrs: Its attributes.
        name: Its name, for the error.
    """
    lookup = _LOOKUPS.get(op_type)
    if lookup is None:
        return inputs
    indices = inputs[lookup.indices]
    limits = lookup.limits(inputs, attrs)
    if not limits or None in limits or _is_safe(indices, limits):
        return inputs
    with graph.as_default(), tf.name_scope(f"{name}_index_check/"):
        check = library.load().ipu_index_check(
            indices=indices, kind=lookup.kind, limits=limits, op_name=name
        )
    return [*inputs[: lookup.indices], check, *inputs[lookup.indices + 1 :]]


def _is_safe(indices: tf.Tensor, limits: Limits) -> bool:
    """Returns whether indices need no check: they are constants in range, or already checked."""
    op = getattr(indices, "op", None)  # An eager tensor has none.
    if op is not None and op.type == CHECK:
        return True
    values = tf.get_static_value(indices)
    return values is not None and bool(np.all((values >= 0) & (values < np.asarray(limits))))


def _sizes(shape: Any) -> list[int | None]:
    return [] if shape.rank is None else list(shape)


def _variable_shape(handle: tf.Tensor) -> tf.TensorShape:
    data = get_resource_handle_data(handle)
    if data is None or not data.is_set or not data.shape_and_type:
        return tf.TensorShape(None)
    return tf.TensorShape(data.shape_and_type[0].shape)
