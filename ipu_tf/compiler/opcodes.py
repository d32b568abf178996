"""Kinds of opcodes that more than one stage of the compiler asks for."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering import elementwise

ELEMENTWISE = frozenset({*elementwise.RULES, "copy"})
"""Opcodes whose result at an index depends on their operands at that index alone."""


def is_elementwise(instruction: Instruction) -> bool:
    """Returns whether an instruction reads operands of its own shape element by element."""
    return instruction.opcode in ELEMENTWISE
