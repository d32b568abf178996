"""The shape of a dot or a convolution, and the plan that it runs with."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.contractions.contraction_shape import conv_shape, dot_shape
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.rules import array_of, operand_array
from ipu_tf.compiler.option_plans import plan_of
from ipu_tf.planner.plan import Plan
from ipu_tf.planner.shapes import OpShape


def plan_for(instruction: Instruction, context: LoweringContext) -> tuple[OpShape, Plan]:
    """Returns the shape of a contraction and the plan that it runs with.

    The plan is that of the tile op of the same name if both do the same work; else the planner's.
    A tile op may count rows or columns of one product as factors of a batch.
    """
    shape = _shape(instruction, context)
    tile_op_plan = context.plans.get(instruction.op_name)
    if tile_op_plan is not None and _is_same_work(tile_op_plan[0], shape):
        return tile_op_plan
    return shape, plan_of(shape, context.options)


def _is_same_work(executed: OpShape, shape: OpShape) -> bool:
    is_as_batched = shape.family != "matmul" or executed.batch == shape.batch
    return is_as_batched and executed.products == shape.products


def _shape(instruction: Instruction, context: LoweringContext) -> OpShape:
    left, right = (operand_array(instruction, index, context) for index in (0, 1))
    try:
        if instruction.opcode == "dot":
            return dot_shape(instruction, left, right)
        return conv_shape(instruction, left, right, array_of(instruction))
    except (ValueError, ZeroDivisionError) as error:
        raise LoweringError(
            instruction, f"it cannot be planned: {error} Give all dimensions at least one element."
        ) from None
