"""The planner's plan of a contraction under the compiler's options."""

from __future__ import annotations

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.planner.planner import plan_conv, plan_matmul
from ipu_tf.planner.shapes import MatMulShape


def plan_of(shape: OpShape, options: CompilerOptions) -> Plan:
    """Returns the planner's plan of a contraction.

    Raises:
        PlanDoesNotFit: No plan fits the tile.
    """
    is_matmul = isinstance(shape, MatMulShape)
    planning = options.matmul if is_matmul else options.conv
    search = plan_matmul if is_matmul else plan_conv
    plan: Plan = search(
        shape,
        options.target,
        partials=planning.partials,
        available_memory_proportion=planning.available_memory_proportion,
    )
    return plan
