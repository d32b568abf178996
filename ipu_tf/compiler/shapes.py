"""The shapes of the ops that are planned.

A shape tells planner, checks and cost model the same things: named extents, which of them are
summed over, and, for a block of given part sizes, its operands and its work on the AMP unit. The
block methods take integers, or arrays with one entry per candidate plan.
"""

from __future__ import annotations

from typing import TypeAlias

from ipu_tf.compiler.conv_shape import CONV_PASSES, ConvPass, ConvShape
from ipu_tf.compiler.matmul_shape import MatMulShape
from ipu_tf.compiler.shape_terms import AMP_GRAINS, DTYPE_BYTES, AmpWork, Block, Operands

__all__ = [
    "AMP_GRAINS",
    "CONV_PASSES",
    "DTYPE_BYTES",
    "AmpWork",
    "Block",
    "ConvPass",
    "ConvShape",
    "MatMulShape",
    "OpShape",
    "Operands",
]

OpShape: TypeAlias = MatMulShape | ConvShape
