"""Expands powers by small whole numbers into products.

The machine's power takes hundreds of cycles per element, a product three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.passes.identities import scalar_of
from ipu_tf.compiler.passes.rewrite import each_program, with_instructions

_EXPONENTS = range(3, 9)
"""Exponents for which at most four products take the place of a power; `identities` has squares."""


def run(module: Module) -> Module:
    """Returns the module in which constant exponents of 3 to 8 are repeated products."""
    return each_program(module, _expanded)


def _expanded(computation: Computation) -> Computation:
    by_name = computation.by_name()
    instructions: list[Instruction] = []
    for instruction in computation:
        exponent = _exponent(instruction, by_name)
        instructions += [instruction] if exponent is None else _products(instruction, exponent)
    return with_instructions(computation, instructions)


def _exponent(instruction: Instruction, by_name: Mapping[str, Instruction]) -> int | None:
    """Returns the exponent of a power that is worth expanding."""
    if instruction.opcode != "power":
        return None
    value = scalar_of(instruction.operands[1], by_name)
    return None if value is None or value not in _EXPONENTS else int(value)


def _products(power: Instruction, exponent: int) -> Iterator[Instruction]:
    """Yields products whose last one is a power: squares, and the base where a bit is set."""
    base = value = power.operands[0]
    factors: list[tuple[str, str]] = []
    for bit in f"{exponent:b}"[1:]:
        for factor in ("square", base) if bit == "1" else ("square",):
            factors.append((value, value if factor == "square" else factor))
            value = f"{power.name}.{len(factors)}"
    for number, operands in enumerate(factors, start=1):
        name = power.name if number == len(factors) else f"{power.name}.{number}"
        yield power.replace(name=name, opcode="multiply", operands=operands)
