"""Kinds of opcodes that several stages of the compiler use."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.elements import elementwise

ELEMENTWISE = frozenset({*elementwise.RULES, "copy"})
"""Opcodes whose result at an index depends only on their operands at that index."""


def is_elementwise(instruction: Instruction) -> bool:
    """Returns whether an instruction reads operands of its own shape element by element."""
    return instruction.opcode in ELEMENTWISE
