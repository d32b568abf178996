"""The planner's plan of a contraction under the compiler's options."""

from __future__ import annotations

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.planner.planner import plan_op


def plan_of(shape: OpShape, options: CompilerOptions) -> Plan:
    """Returns the planner's plan of a contraction.

    Raises:
        PlanDoesNotFit: No plan fits the tile.
    """
    planning = options.matmul if shape.family == "matmul" else options.conv
    return plan_op(
        shape,
        options.target,
        partials=planning.partials,
        available_memory_proportion=planning.available_memory_proportion,
    )
