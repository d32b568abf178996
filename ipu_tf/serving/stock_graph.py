"""Rewrites functions with tile ops as functions that stock TensorFlow runs.

A tile op is renamed to its stock twin and loses its own attributes; a joined op becomes the ops
that it stands for; checks of the machine are left out.
"""

from __future__ import annotations

from typing import Any

from ipu_tf.internals.tensorflow import FunctionDef
from ipu_tf.ops.kernels import joined_ops
from ipu_tf.runtime.extraction.function_nodes import STOCK_TYPES, become_stock, outputs_of
from ipu_tf.runtime.tracing import index_checks

_DROPPED = frozenset({"IpuFloatingPointCheck", "IpuReplayRecord"})


def is_tile_op(op_type: str) -> bool:
    """Returns whether stock TensorFlow lacks an op type because it is of this package."""
    tables = (STOCK_TYPES, joined_ops.JOINED, _DROPPED, (index_checks.CHECK,))
    return any(op_type in types for types in tables)


def make_stock(function: FunctionDef) -> bool:
    """Replaces the tile ops of a FunctionDef by stock ops.

    Returns:
        Whether there were any.
    """
    if not any(is_tile_op(node.op) for node in function.node_def):
        return False
    nodes = list(function.node_def)
    stock_nodes: list[Any] = []
    new_names: dict[str, str] = {}
    for node in nodes:
        if node.op in _DROPPED:
            continue
        if node.op == index_checks.CHECK:
            new_names[next(outputs_of(node))[0]] = node.input[0]
        elif node.op in joined_ops.JOINED:
            stock, results = joined_ops.expand(node)
            names = [name for name, _ in outputs_of(node)]
            new_names.update(
                {old: new for old, new in zip(names, results, strict=True) if old != new}
            )
            stock_nodes.extend(stock)
        else:
            stock_nodes.append(node)
    _replace_nodes(function, stock_nodes, new_names)
    return True


def _replace_nodes(function: Any, nodes: list[Any], new_names: dict[str, str]) -> None:
    names = {node.name for node in nodes}

    def current(name: str) -> str:
        while name in new_names:
            name = new_names[name]
        return name

    copies = []
    for node in nodes:
        copy = type(node)()
        copy.CopyFrom(node)
        become_stock(copy)
        copy.ClearField("input")
        inputs = [current(name) for name in node.input]
        copy.input.extend(n for n in inputs if not n.startswith("^") or n[1:] in names)
        copies.append(copy)
    function.ClearField("node_def")
    function.node_def.extend(copies)
    for result, name in function.ret.items():
        function.ret[result] = current(name)
    lost_outputs = [key for key, name in function.control_ret.items() if name not in names]
    for key in lost_outputs:
        del function.control_ret[key]
        function.signature.control_output.remove(key)
