"""Fingerprints of programs, by which the instances of a job see that theirs are the same."""

from __future__ import annotations

import collections
import hashlib
from typing import Any

from ipu_tf.runtime.tracing.call_ops import definitions_of

_TYPES_AND_SHAPES = ("T", "dtype", "DstT", "shape", "output_shapes", "_output_shapes")
"""The attributes that count. Others may differ between instances: names, seeds, values."""


def fingerprint(name: str | bytes) -> str:
    """Returns a word for the ops of a function, with their types and shapes, in any order.

    Args:
        name: The name of the function in TensorFlow's library; functions that it calls count too.
    """
    definitions = definitions_of([name.decode() if isinstance(name, bytes) else name])
    node_counts = collections.Counter(
        _described(node) for one in definitions for node in one.node_def
    )
    digest = hashlib.sha256()
    for text, count in sorted(node_counts.items()):
        digest.update(text + f" {count}\n".encode())
    return digest.hexdigest()[:8]


def _described(node: Any) -> bytes:
    parts = [node.op.encode()]
    parts += [
        node.attr[attribute].SerializeToString(deterministic=True)
        for attribute in _TYPES_AND_SHAPES
        if attribute in node.attr
    ]
    if node.op == "Const":
        parts.append(node.attr["value"].tensor.tensor_shape.SerializeToString())
    return b" ".join(parts)
