"""Converts op attributes between Python values and the protos of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import tensorflow as tf

from ipu_tf.internals.graphs import set_op_attribute

AttrValue: TypeAlias = tf.compat.v1.AttrValue

PlainValue: TypeAlias = bool | int | float | str | list[int]
"""The value of an attribute that means the same in Python and in a proto."""

SHARD = "_ipu_shard"
"""Attribute of ops that `ipu_shard` places: the number of their IPU."""

ON_HOST = "_ipu_on_host"
"""Attribute of ops that the host runs in the middle of a program."""


def note_host_op(op: tf.Operation) -> tf.Operation:
    """Returns an op, marked as one that the host runs, with the shapes of its results."""
    shapes = [tensor.shape.as_proto() for tensor in op.outputs]
    shape_list = tf.compat.v1.AttrValue.ListValue(shape=shapes)
    set_op_attribute(op, ON_HOST, tf.compat.v1.AttrValue(b=True))
    set_op_attribute(op, "_output_shapes", tf.compat.v1.AttrValue(list=shape_list))
    return op


def to_protos(values: Mapping[str, PlainValue]) -> dict[str, AttrValue]:
    """Returns attribute protos for bools, ints, strings and lists of ints."""
    return {name: _to_proto(value) for name, value in values.items()}


def _to_proto(value: PlainValue) -> AttrValue:
    if isinstance(value, bool):
        return tf.compat.v1.AttrValue(b=value)
    if isinstance(value, int):
        return tf.compat.v1.AttrValue(i=value)
    if isinstance(value, str):
        return tf.compat.v1.AttrValue(s=value.encode())
    return tf.compat.v1.AttrValue(list=tf.compat.v1.AttrValue.ListValue(i=value))


def from_protos(protos: Mapping[str, AttrValue]) -> dict[str, PlainValue]:
    """Returns the attributes that are bools, numbers, strings or int lists as Python values."""
    values: dict[str, PlainValue] = {}
    for name, proto in protos.items():
        kind = proto.WhichOneof("value")
        if kind in ("b", "i", "f"):
            values[name] = getattr(proto, kind)
        elif kind == "s":
            values[name] = proto.s.decode(errors="replace")
        elif kind == "list" and not (proto.list.s or proto.list.type or proto.list.func):
            values[name] = list(proto.list.i)
    return values
