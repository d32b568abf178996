"""The shape of a dot or a convolution, and the plan that it runs with."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.contractions.contraction_shape import conv_shape, dot_shape
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.option_plans import plan_of
from ipu_tf.planner.plan import Plan
from ipu_tf.planner.shapes import OpShape


def plan_for(instruction: Instruction, context: LoweringContext) -> tuple[OpShape, Plan]:
    """Returns the shape of a contraction and the plan that it runs with.

    The plan is that of the tile op of the same name if both do the same work; else the planner's.
    A tile op may count rows or columns of one product as factors of a batch.
    """
    shape = _shape(instruction, context)
    tile_op = context.plans.get(instruction.op_name)
    if tile_op is not None:
        executed, _ = tile_op
        is_as_batched = shape.family != "matmul" or executed.batch == shape.batch
        if is_as_batched and executed.products == shape.products:
            return tile_op
    return shape, plan_of(shape, context.options)


def _shape(instruction: Instruction, context: LoweringContext) -> OpShape:
    left, right = (context.operand(instruction, index).array for index in (0, 1))
    try:
        if instruction.opcode == "dot":
            return dot_shape(instruction, left, right)
        return conv_shape(instruction, left, right, instruction.array)
    except (ValueError, ZeroDivisionError) as error:
        raise LoweringError(
            instruction, f"it cannot be planned: {error} Give all dimensions at least one element."
        ) from None
