"""Finds the ops of a program whose results have no static size.

XLA gives the result of `tf.where(condition)` or `x[:n]` its largest possible shape, and sets the
size of a dimension when the program runs. Sizes that XLA computes itself, such as those of
`tf.shape(x)[0]` or of a constant condition, are static in its program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

# Numbers of xla.PrimitiveType, https://github.com/openxla/xla/blob/main/xla/xla_data.proto.
_INTEGERS = range(2, 10)  # s8, s16, s32, s64, u8, u16, u32, u64


def dynamic_ops(proto: tf.compat.v1.GraphDef) -> dict[str, str]:
    """Returns the types of the ops that make tensors of dynamic size, by their names.

    Args:
        proto: An HloModuleProto.
    """
    setters = {c.id: list(_size_setters(c)) for c in proto.computations}
    makers = [setter for group in setters.values() for setter in group if setter.metadata.op_name]
    if len(makers) < sum(map(len, setters.values())):
        makers += _merging_conditionals(proto, setters)
    return {maker.metadata.op_name: maker.metadata.op_type for maker in makers}


def _size_setters(computation: Any) -> Iterator[Any]:
    """Yields the instructions that turn tensors of static size into tensors of dynamic size."""
    setters = [i for i in computation.instructions if i.opcode == "set-dimension-size"]
    if not setters:
        return
    instructions = {i.id: i for i in computation.instructions}
    for setter in setters:
        if _is_dynamic(setter) and not _follows_from_dynamic(setter, instructions):
            yield setter


def _is_dynamic(instruction: Any) -> bool:
    return any(instruction.shape.is_dynamic_dimension)


def _follows_from_dynamic(setter: Any, instructions: Mapping[int, Any]) -> bool:
    """Returns whether another tensor of dynamic size gives an instruction its values or its size.

    Sizes are computed from sizes in integers: other tensors end the search.
    """
    values, *worklist = setter.operand_ids
    if _is_dynamic(instructions[values]):
        return True
    ids = set()
    while worklist:
        operand = instructions[worklist.pop()]
        if operand.id in ids or operand.shape.element_type not in _INTEGERS:
            continue
        ids.add(operand.id)
        if operand.opcode == "get-dimension-size":
            if _is_dynamic(instructions[operand.operand_ids[0]]):
                return True
        else:
            worklist += operand.operand_ids
    return False


def _merging_conditionals(proto: Any, setters: dict[int, list[Any]]) -> Iterator[Any]:
    """Yields the conditionals whose branches set their own sizes: XLA merges these unnamed."""
    for computation in proto.computations:
        for instruction in computation.instructions:
            branch_setters = (
                s for callee in instruction.called_computation_ids for s in setters[callee]
            )
            if instruction.opcode == "conditional" and any(
                not setter.metadata.op_name for setter in branch_setters
            ):
                yield instruction
