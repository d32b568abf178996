"""The shapes of the ops that the planner plans.

Planner, checks and cost model read the same shape: named extents, those that are summed over,
and, for a block of given part sizes, its operands and its work. The block methods take
integers, or arrays with one entry per candidate plan.
"""

from __future__ import annotations

from typing import TypeAlias

from ipu_tf.machine.contractions import AMP_GRAINS
from ipu_tf.planner.conv_shape import CONV_PASSES, ConvPass, ConvShape, fold_depth
from ipu_tf.planner.matmul_shape import MatMulShape
from ipu_tf.planner.shape_terms import (
    DTYPE_BYTES,
    PARTIAL_DTYPES,
    Block,
    Family,
    Operands,
    PlannedShape,
)

__all__ = [
    "AMP_GRAINS",
    "CONV_PASSES",
    "DTYPE_BYTES",
    "PARTIAL_DTYPES",
    "Block",
    "ConvPass",
    "ConvShape",
    "Family",
    "MatMulShape",
    "OpShape",
    "Operands",
    "PlannedShape",
    "fold_depth",
]

OpShape: TypeAlias = MatMulShape | ConvShape
