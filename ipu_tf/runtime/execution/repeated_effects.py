"""What a second run of a program does in place of operations with effects: it takes what they gave
in the first."""

from __future__ import annotations

from typing import Any

from ipu_tf.internals.tensorflow import FunctionDef, NodeDef, op_def_registry
from ipu_tf.runtime.execution.value_flow import inputs_of, node_of
from ipu_tf.runtime.execution.xla_engine import rename
from ipu_tf.runtime.extraction.function_nodes import outputs_of
from ipu_tf.runtime.tracing.call_ops import callees_of, definitions_of
from ipu_tf.runtime.tracing.snapshots import COLLECTIVE, RECORD, has_effect

TAKE = "IpuReplayTake"
"""Type of the op that gives what an op with effects gave."""

OF, OF_TYPE, OPERANDS = "_of", "_of_type", "_operands"
"""Attributes of a `TAKE`: the name and the type of that op, and what it read of other replicas."""

_OF_VARIABLES = ("Resource", "Rng", "Stateful")
_STREAMS_OF_GROUP = 1 << 20


def repeat(definition: FunctionDef) -> list[str]:
    """Makes the nodes of a FunctionDef that must not run twice repeat what they gave.

    Returns:
        The tensors that leave the program through feeds.
    """
    new_names: dict[str, str] = {}
    records: dict[str, Any] = {}
    tensors: list[str] = []
    for node in definition.node_def:
        if node.op == RECORD and node.attr["kept"].b:
            records |= dict.fromkeys(inputs_of(node), node)
        elif node.op == RECORD:
            tensors += inputs_of(node)
            _become(node, "NoOp")
    for node in list(definition.node_def):
        if node.op == RECORD or not _must_not_repeat(node):
            continue
        for index, (name, _) in enumerate(outputs_of(node)):
            if name in records:
                record = records[name]
                new_names[name] = f"{record.name}:values:{index}"
                record.attr[OF].s, record.attr[OF_TYPE].s = node.name.encode(), node.op.encode()
                operands = inputs_of(node)[1:] if node.op == COLLECTIVE else []
                record.attr[OPERANDS].list.s[:] = [operand.encode() for operand in operands]
        _become(node, "NoOp")
    for node in {node.name: node for node in records.values()}.values():
        _become(node, TAKE)
        operand_names = node.attr[OPERANDS].list.s
        operand_names[:] = [
            new_names.get(one.decode(), one.decode()).encode() for one in operand_names
        ]
    rename(definition, new_names)
    return [new_names.get(name, name) for name in tensors]


def first_unrepeatable(names: set[str]) -> NodeDef | None:
    """Returns the first node of functions, and of those that they call, that a second run can
    neither repeat nor do without; None if there is none."""
    for definition in definitions_of(names):
        nodes = definition.node_def
        records = [node for node in nodes if node.op == RECORD]
        recorded = {node_of(name) for node in records for name in node.input}
        for node in nodes:
            if not _must_not_repeat(node) or node.name in recorded:
                continue
            if op_def_registry.get(node.op).output_arg:
                return node
    return None


def callees_by_name(definition: FunctionDef) -> dict[str, FunctionDef]:
    """Returns the functions that one calls, and those that they call, by name."""
    return {one.signature.name: one for one in definitions_of(callees_of(definition))}


def groups_of_streams(definition: FunctionDef) -> list[int]:
    """Returns the groups of streams of random bits that a function and those it calls draw from."""
    callees = callees_by_name(definition).values()
    nodes = [node for one in (definition, *callees) for node in one.node_def]
    rounding = [node for node in nodes if "rounding" in node.attr]
    stochastic = [node for node in rounding if node.attr["rounding"].s == b"stochastic"]
    return sorted({node.attr["stream"].i // _STREAMS_OF_GROUP for node in stochastic})


def _must_not_repeat(node: Any) -> bool:
    op_def = op_def_registry.get(node.op)
    uses_variable = "Variable" in node.op or node.op.startswith(_OF_VARIABLES)
    return has_effect(op_def, node.op) and not uses_variable


def _become(node: Any, op_type: str) -> None:
    """Makes a node one of another type without operands, which waits for the same nodes."""
    waits = [name for name in node.input if name.startswith("^")]
    names = ("T", "stream", OF, OF_TYPE, OPERANDS)
    attributes = {name: node.attr[name] for name in names if name in node.attr}
    attributes = {
        name: type(value).FromString(value.SerializeToString())
        for name, value in attributes.items()
    }
    node.op = op_type
    del node.input[:]
    node.input.extend(waits)
    node.attr.clear()
    if op_type == TAKE:
        for name, value in attributes.items():
            node.attr[name].CopyFrom(value)
