"""Kinds of opcodes that more than one stage of the compiler asks for."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Instruction

ELEMENTWISE = frozenset(
    {
        "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "complex", "convert",
        "copy", "cosine", "count-leading-zeros", "divide", "erf", "exponential",
        "exponential-minus-one", "floor", "fusion", "is-finite", "log", "log-plus-one", "logistic",
        "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power",
        "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt",
        "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign", "sine",
        "sqrt", "subtract", "tan", "tanh", "xor",
    }
)  # fmt: skip
"""Opcodes whose result at an index depends on their operands at that index alone."""


def is_elementwise(instruction: Instruction) -> bool:
    """Returns whether an instruction reads operands of its own shape element by element."""
    return instruction.opcode in ELEMENTWISE
