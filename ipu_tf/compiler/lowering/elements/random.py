"""Random numbers: every tile draws its own from the generator in hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.elements.operand_orders import into_order
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays, like, spread
from ipu_tf.compiler.lowering.memory_order import operand_order, row_order
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.compiler.lowering.transposition import moved
from ipu_tf.machine import vertices
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import Vertex
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import NOTHING, to_all

_DRAW: Mapping[str, Callable[[int, str, Target], Vertex]] = {
    "normal": vertices.random_normal,
    "truncated_normal": vertices.random_truncated_normal,
    "uniform": vertices.random_uniform,
}


def rng(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers numbers of a distribution; all tiles need its parameters (scalars) or seeds."""
    array = instruction.array
    distribution = instruction.attributes["distribution"]
    if distribution not in _DRAW:
        names = ", ".join(_DRAW)
        raise LoweringError(
            instruction, f"tiles draw from {names}, not from {distribution!r}; draw one of those."
        )
    result = spread(array, context)
    vertex = _DRAW[distribution](result.tile_elements, array.dtype, context.target)
    traffic = sum((to_all(operand, result.tiles) for operand in operands), NOTHING)
    stage = ComputeStage(name="draw", where=result, traffic=traffic, vertex=vertex)
    return lower_stages((stage,), (result,), context.target)


def rng_bit_generator(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers random bits, with or without the next state of the generator before them.

    A generator whose seed is a constant reads nothing.
    """
    *states, bits = arrays(instruction.type)
    result = spread(bits, context)
    vertex = vertices.random_bits(result.tile_elements, bits.dtype, context.target)
    traffic = sum((to_all(operand, result.tiles) for operand in operands), NOTHING)
    stage = ComputeStage(name="draw bits", where=result, traffic=traffic, vertex=vertex)
    return lower_stages((stage,), (*(operands[0].stored for _ in states), result), context.target)


def dropout(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers dropout, or its gradient: every tile masks its own elements; all need the seeds.

    The mask depends on where elements lie, so that its later uses bring theirs to the places and
    into the order of the first (poprand's dropout, and the reference tensor that PopART gives it).
    """
    array = instruction.array
    elements, *seeds = operands
    where = like(elements, array) if elements.repeats is None else spread(array, context)
    order = row_order(instruction, context)
    where, order = context.masks.setdefault(_mask(instruction, context), (where, order))
    context.orders[instruction.name] = order
    transposed = {}
    if elements.repeats is None and operand_order(instruction, 0, context) != order:
        transposed = {0: into_order(instruction, 0, elements, order, context)}
    vertex = vertices.dropout(where.tile_elements, array.dtype, context.target)
    traffic = moved((elements,), where, transposed)
    traffic = sum((to_all(seed, where.tiles) for seed in seeds), traffic)
    stage = ComputeStage(name="dropout", where=where, traffic=traffic, vertex=vertex)
    return lower_stages(
        (*(one.stage for one in transposed.values()), stage),
        (where,),
        context.target,
        scratch=[one.copy for one in transposed.values()],
        flops=array.elements,
    )


def _mask(instruction: Instruction, context: LoweringContext) -> tuple[str, ...]:
    """Returns what the mask of a dropout depends on: its type, and the ops that made its seeds."""
    seeds = [context.operand(instruction, index) for index in range(1, len(instruction.operands))]
    return (str(instruction.type), *(seed.op_name or seed.name for seed in seeds))


RULES: Mapping[str, Rule] = {
    "dropout": dropout,
    "rng": rng,
    "rng-bit-generator": rng_bit_generator,
}
