"""Finds the ops of a program whose results have no static size.

XLA gives what `tf.where(condition)` or `x[:n]` returns the largest shape that it can have, and
sets the size of a dimension when the program runs. Sizes that XLA computes itself, as it does of
`tf.shape(x)[0]` or of a constant condition, are static in its program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def dynamic_ops(proto: Any) -> dict[str, str]:
    """Returns the types of the ops that make tensors of dynamic size, by their names.

    Args:
        proto: An HloModuleProto.
    """
    setters = {c.id: list(_size_setters(c)) for c in proto.computations}
    makers = [setter for found in setters.values() for setter in found if setter.metadata.op_name]
    if len(makers) < sum(map(len, setters.values())):
        makers += _merging_conditionals(proto, setters)
    return {maker.metadata.op_name: maker.metadata.op_type for maker in makers}


def _size_setters(computation: Any) -> Iterator[Any]:
    """Yields the instructions that make tensors of dynamic size of static ones."""
    setters = [i for i in computation.instructions if i.opcode == "set-dimension-size"]
    if not setters:
        return
    shapes = {i.id: i.shape for i in computation.instructions}
    for setter in setters:
        was_dynamic = any(shapes[setter.operand_ids[0]].is_dynamic_dimension)
        if any(setter.shape.is_dynamic_dimension) and not was_dynamic:
            yield setter


def _merging_conditionals(proto: Any, setters: dict[int, list[Any]]) -> Iterator[Any]:
    """Yields the conditionals whose branches give sizes of their own: XLA merges them unnamed."""
    for computation in proto.computations:
        for instruction in computation.instructions:
            merged = (s for callee in instruction.called_computation_ids for s in setters[callee])
            if instruction.opcode == "conditional" and any(
                not setter.metadata.op_name for setter in merged
            ):
                yield instruction
