"""Lowers instructions to supersteps: one rule for every kind of opcode.

`lower` finds the rule; a rule asks the machine for cycles and `mapping` for tiles. Rules are in
files by kind: element-wise, contractions, reductions, windows, views, movement, indexing, random
numbers, sorting, linear algebra, normalisation, collectives, the host, control flow.
"""

from typing import TYPE_CHECKING

from ipu_tf.base.deprecation import deprecated_names
from ipu_tf.compiler.lowering.dispatch import lower, preferred_placement
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import spread
from ipu_tf.compiler.lowering.rearrangement.relayout import relayout

__all__ = ["LoweringError", "lower", "preferred_placement", "relayout", "spread"]

# Type checkers would take this function to mean "any name at all".
if not TYPE_CHECKING:
    __getattr__ = deprecated_names(
        __name__,
        {
            "Traffic": "ipu_tf.tile_program.traffic.Traffic",
            "UnsupportedOpcode": f"{__name__}.LoweringError",
            "move": "ipu_tf.tile_program.traffic.move",
        },
    )
