"""Programs of Poplar inside of a program of TensorFlow: custom ops."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays, spread, spread_tiles
from ipu_tf.tile_program.layouts.layout import LINEAR
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage, supersteps
from ipu_tf.tile_program.traffic import move

TARGET = "ipu_tf.user_op"
"""The target of the custom calls whose attribute `program` is one."""


def embedded_program(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the call of a program: operands as it takes them, then its supersteps.

    Models operands in equal shares, as `poputil::mapTensorLinearly` maps them, on whatever tiles:
    those that lie otherwise are rearranged first. Does not model the maps of an op's allocator.
    """
    program = instruction.attributes["program"]
    copies = [(one, _linear(one, context)) for one in operands if not _is_linear(one)]
    stages = [
        ComputeStage(name="rearrange operands", where=there, traffic=move(here, there))
        for here, there in copies
    ]
    return LoweredInstruction(
        supersteps=(*supersteps(stages, context.target), *program.supersteps),
        results=tuple(spread(array, context) for array in arrays(instruction.type)),
        scratch=(*program.scratch, *(there.footprint for _, there in copies)),
        exchange_buffers=program.exchange_buffers,
        vertex_state=program.always_live,
        code=dict(program.code),
        exchange_code_bytes=program.exchange_code_bytes,
    )


def _is_linear(operand: Placement) -> bool:
    return operand.elements == 0 or (operand.layout == LINEAR and operand.repeats is None)


def _linear(operand: Placement, context: LoweringContext) -> Placement:
    tiles = spread_tiles(operand.elements, operand.element_bytes, context.target.tiles)
    return Placement(
        elements=operand.elements,
        element_bytes=operand.element_bytes,
        first_tile=context.first_tile(tiles),
        tiles=tiles,
    )
