"""Multiplies softmaxes by the inverse of their sums.

popnn inverts the sums, of which there are few, and multiplies by them (poplibs, NonLinearity.cpp):
on the machine a division of four halves takes 21 slots, a product 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.hlo.literal import NUMPY_DTYPES
from ipu_tf.compiler.passes.rewrite import each_program, with_instructions


def run(module: Module) -> Module:
    """Returns the module in which no softmax divides by repeated elements."""
    return each_program(module, _multiplied)


def _multiplied(computation: Computation) -> Computation:
    by_name = computation.by_name()
    instructions: list[Instruction] = []
    for instruction in computation:
        is_division = instruction.opcode == "divide" and instruction.op_type == "Softmax"
        sums = _repeated(instruction.operands[1], by_name) if is_division else None
        instructions += [instruction] if sums is None else _product(instruction, sums, by_name)
    return with_instructions(computation, instructions)


def _repeated(divisor: str, by_name: Mapping[str, Instruction]) -> Instruction | None:
    """Returns the values of which a divisor is the broadcast; None if none of them repeats."""
    broadcast = by_name[divisor]
    if broadcast.opcode != "broadcast":
        return None
    source = by_name[broadcast.operands[0]]
    return source if source.array.elements < broadcast.array.elements else None


def _product(
    division: Instruction, sums: Instruction, by_name: Mapping[str, Instruction]
) -> Iterator[Instruction]:
    """Yields the inverse of the sums, its broadcast and the product that is the division."""
    type_ = sums.array
    scalar = Array(dtype=type_.dtype, dims=())
    one, ones, inverse, spread = (f"{division.name}.{part}" for part in range(1, 5))
    literal: dict[str, object] = {"literal": np.ones((), NUMPY_DTYPES[type_.dtype])}
    parts = division.replace(attributes={}, type=type_)
    yield parts.replace(name=one, opcode="constant", operands=(), type=scalar, attributes=literal)
    yield parts.replace(
        name=ones, opcode="broadcast", operands=(one,), attributes={"dimensions": ()}
    )
    yield parts.replace(name=inverse, operands=(ones, sums.name))
    yield by_name[division.operands[1]].replace(name=spread, operands=(inverse,))
    yield division.replace(opcode="multiply", operands=(division.operands[0], spread))
