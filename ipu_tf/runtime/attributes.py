"""Op attributes between Python values and the protos that a graph stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

AttrValue = tf.compat.v1.AttrValue


def to_protos(values: Mapping[str, Any]) -> dict[str, AttrValue]:
    """Returns attribute protos for bools, ints, strings and lists of ints."""
    return {name: _to_proto(value) for name, value in values.items()}


def _to_proto(value: bool | int | str | list[int]) -> AttrValue:
    if isinstance(value, bool):
        return AttrValue(b=value)
    if isinstance(value, int):
        return AttrValue(i=value)
    if isinstance(value, str):
        return AttrValue(s=value.encode())
    return AttrValue(list=AttrValue.ListValue(i=value))


def from_protos(protos: Mapping[str, AttrValue]) -> dict[str, Any]:
    """Returns the bools, ints, strings and lists of ints among attributes, as Python values."""
    values: dict[str, Any] = {}
    for name, proto in protos.items():
        kind = proto.WhichOneof("value")
        if kind in ("b", "i"):
            values[name] = getattr(proto, kind)
        elif kind == "s":
            values[name] = proto.s.decode(errors="replace")
        elif kind == "list" and not (proto.list.s or proto.list.type or proto.list.func):
            values[name] = list(proto.list.i)
    return values
