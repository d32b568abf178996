"""Element-wise vertices: unary, binary and ternary operations, single or fused.

Cycles: `W x (start + slots x loops) + supervisor`, slots and loop lengths by operation and type as
in poplibs' tables. Modelled: operations that the tables do not list, and the split of a loop into
arithmetic and memory slots that fused chains need. A loop has one memory slot per vector that it
loads or stores, and a fused loop issues them beside the arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.inner_loops import ARITY, FAMILY, LOOPS, InnerLoop
from ipu_tf.machine.vertices.vertex import (
    Vertex,
    dealt_cycles,
    dtype_bytes,
    vector_elements,
    vertex,
)

OPCODES = frozenset(LOOPS)
"""HLO opcodes that have a cost here."""

_SUPERVISOR_CYCLES = 11
_START_SLOTS = {1: 17, 2: 20, 3: 20}
"""Slots of a worker besides its loops, by the number of operands. poplibs charges 17 for unary
and 20 for binary operations; ternary ones are modelled like binary ones."""

_FUSED_CODE_BUNDLES = 12
_CODE_BUNDLES = 20


def elementwise(
    opcode: str,
    elements: Count,
    dtype: str,
    target: Target,
    *,
    in_place: bool = False,
    scalar_operand: bool = False,
) -> Vertex:
    """Returns the cost of one operation.

    Args:
        opcode: HLO's opcode, one of `OPCODES`.
        elements: Elements of the tile's share of the result.
        dtype: Type of the operands (of the values, for a select).
        target: The machine.
        in_place: Whether the result overwrites an operand.
        scalar_operand: Whether one operand is a scalar for all elements.

    Raises:
        ValueError: The operation is unknown, or does not exist for the type.
    """
    loop = _loop(opcode, dtype)
    arity = ARITY[opcode]
    slots = loop.slots
    if arity == 2 and loop.slots == 3 and (in_place or scalar_operand):
        slots -= 1  # poplibs: the store shares its slot with one of the loads
    cycles = _SUPERVISOR_CYCLES + dealt_cycles(
        ceil_div(elements, loop.elements),
        target,
        slots_per_item=slots,
        start_slots=_START_SLOTS[arity],
    )
    return vertex(
        opcode, dtype, elements, cycles, pointers=arity + 2 - in_place, bundles=_CODE_BUNDLES
    )


def fused(
    operations: Sequence[tuple[str, str]],
    elements: Count,
    dtype: str,
    target: Target,
    *,
    operands: int,
) -> Vertex:
    """Returns the cost of a chain of operations that keeps intermediate values in registers.

    Args:
        operations: Opcode and type of every operation in the chain.
        elements: Elements of the tile's share of the result.
        dtype: Type of the result.
        target: The machine.
        operands: Number of tensors that are read from memory.

    Raises:
        ValueError: An operation is unknown, or does not exist for its type.
    """
    arithmetic = sum(_arithmetic_slots_per_element(*operation) for operation in operations)
    memory = (operands + 1) / vector_elements(dtype)
    slots_per_element = max(arithmetic, memory)
    vectors = ceil_div(elements, vector_elements(dtype))
    cycles = _SUPERVISOR_CYCLES + dealt_cycles(
        vectors,
        target,
        slots_per_item=slots_per_element * vector_elements(dtype),
        start_slots=_START_SLOTS[3],
    )
    name = "fused_" + "_".join(sorted({opcode for opcode, _ in operations}))
    return vertex(
        name,
        dtype,
        elements,
        cycles,
        pointers=operands + 2,
        bundles=_FUSED_CODE_BUNDLES + 4 * len(operations),
    )


def _loop(opcode: str, dtype: str) -> InnerLoop:
    """Returns the loop of an operation for a type."""
    if opcode not in LOOPS:
        raise ValueError(
            "Unknown element-wise operation. Choose one of "
            f"{', '.join(sorted(LOOPS))}. Received: {opcode!r}."
        )
    dtype_bytes(dtype)
    by_family: Mapping[str, InnerLoop] = LOOPS[opcode]
    family = FAMILY[dtype]
    if family == "int64" and "int" in by_family:
        # Modelled: two words, each with a slot more for the carry.
        return InnerLoop(2 * by_family["int"].slots + 1, by_family["int"].elements)
    if family == "pred" and "pred" not in by_family and "int" in by_family:
        return by_family["int"]
    if family not in by_family:
        raise ValueError(
            f"Element-wise {opcode} is defined for {', '.join(by_family)}. Received: {dtype!r}."
        )
    return by_family[family]


def _arithmetic_slots_per_element(opcode: str, dtype: str) -> float:
    """Returns the slots of an operation without its loads, stores and loop control."""
    loop = _loop(opcode, dtype)
    accesses = (ARITY[opcode] + 1) * loop.elements / vector_elements(dtype)
    control = 3 if FAMILY[dtype] in ("int", "int64") and loop.elements == 1 else 0
    beside = min(accesses, loop.slots) - 1 + control
    least = loop.elements / vector_elements(dtype)
    return float(np.maximum(loop.slots - beside, least)) / loop.elements
