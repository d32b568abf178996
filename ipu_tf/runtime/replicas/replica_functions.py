"""Copies a function for a replica, with all functions that it calls.

The copies differ in what a program draws at random: each replica has streams of its own. A copy has
kernels of its own, too, so the state of its generators is its own.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph, atomic_function_from_func_graph, eager_context
from ipu_tf.runtime.tracing.function_copies import copy_of, library_function

STREAM_STRIDE = 1 << 48
"""Streams of stochastic rounding of a replica lie this far behind those of the one before; so the
kernels know them (kReplicaStride, ops/core/elements/replica_streams.h)."""

_serial = itertools.count()


def function_copies(
    graph: FuncGraph, count: int, offset: int = 0
) -> list[tf.types.experimental.AtomicFunction]:
    """Returns a function for each replica, of the ops of a finished graph.

    Args:
        graph: The graph.
        count: Number of replicas.
        offset: Number of the first of them.
    """
    name = f"{graph.name}_replica_{next(_serial)}"
    first = atomic_function_from_func_graph(name, graph, {})
    find = eager_context().get_function_def
    return [
        first if replica == 0 else _copy(first, find, replica)
        for replica in range(offset, offset + count)
    ]


def _copy(function: Any, find: Callable[[str], Any], replica: int) -> Any:
    """Returns a copy of a function for a replica."""

    def of_replica(name: str) -> str:
        return f"{name}_of_{replica}"

    name = function.name.decode()
    return library_function(
        copy_of(find, name, of_replica(name)),
        find,
        functools.partial(_change, replica),
        of_replica,
        function.function_type,
    )


def _change(replica: int, definition: Any) -> None:
    """Gives the nodes of a function the streams of a replica."""
    for node in definition.node_def:
        if "seed2" in node.attr and (node.attr["seed"].i or node.attr["seed2"].i):
            node.attr["seed2"].i = _seed(node.attr["seed"].i, node.attr["seed2"].i, replica)
        if node.op.startswith("Ipu") and "stream" in node.attr:
            node.attr["stream"].i += replica * STREAM_STRIDE


def _seed(seed: int, seed2: int, replica: int) -> int:
    """Returns the second seed of an op on a replica, from 1 to 2**63 - 1."""
    digest = hashlib.sha256(f"{seed} {seed2} {replica}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1 or 1
