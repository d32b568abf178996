"""Lowers instructions to supersteps: one rule for every kind of opcode.

`lower` finds the rule; a rule asks the machine for cycles and `mapping` for tiles. Rules are in
files by kind: element-wise, contractions, reductions, windows, views, movement, indexing, random
numbers, sorting, linear algebra, normalisation, collectives, the host, control flow.
"""

from typing import TYPE_CHECKING

from ipu_tf.compiler.lowering.dispatch import lower, preferred_placement
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import spread
from ipu_tf.compiler.lowering.relayout import relayout
from ipu_tf.deprecation import deprecated_names

__all__ = ["LoweringError", "lower", "preferred_placement", "relayout", "spread"]

# Type checkers would take this function to mean "any name at all".
if not TYPE_CHECKING:
    __getattr__ = deprecated_names(
        __name__,
        {
            "Traffic": f"{__name__}.traffic.Traffic",
            "UnsupportedOpcode": f"{__name__}.LoweringError",
            "move": f"{__name__}.traffic.move",
        },
    )
