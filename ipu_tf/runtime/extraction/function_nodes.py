"""Inputs and outputs of nodes in a FunctionDef."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ipu_tf.internals.tensorflow import NodeDef, OpDef, op_def_registry
from ipu_tf.ops.kernels.twins import STOCK_OF

STOCK_TYPES = {**STOCK_OF, "IpuCast": "Cast"}
"""The stock type of each tile op that a rename turns back into its stock op."""


def become_stock(node: NodeDef) -> None:
    """Makes a node of a FunctionDef, if it is a tile op, its stock twin."""
    if node.op not in STOCK_TYPES:
        return
    node.op = STOCK_TYPES[node.op]
    names = {attribute.name for attribute in op_def_registry.get(node.op).attr}
    for name in [n for n in node.attr if n not in names and not n.startswith("_")]:
        del node.attr[name]


def outputs_of(node: NodeDef) -> Iterator[tuple[str, int]]:
    """Yields the name of each output of a node in a FunctionDef, and its type."""
    for argument in op_def_registry.get(node.op).output_arg:
        for index, dtype in enumerate(dtypes_of(node, [argument])):
            yield f"{node.name}:{argument.name}:{index}", dtype


def dtypes_of(node: NodeDef, arguments: Iterable[OpDef.ArgDef]) -> list[int]:
    """Returns the types of a node's inputs or outputs, one for each tensor."""
    dtypes: list[int] = []
    for argument in arguments:
        if argument.type_list_attr:
            dtypes += node.attr[argument.type_list_attr].list.type
            continue
        dtype = node.attr[argument.type_attr].type if argument.type_attr else argument.type
        dtypes += [dtype] * (node.attr[argument.number_attr].i if argument.number_attr else 1)
    return dtypes
