"""Cholesky factors and triangular solves, in blocks: panels on vector units, the rest as matmuls.

Modelled: tiles factor or solve a block of columns column by column, then one matmul, planned like
any other, updates the part of the matrix behind it. Fourier transforms raise an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction, TriangularSolveOptions
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.contractions.contraction_shape import dtype_of
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import product, spread
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.superstep import Superstep
from ipu_tf.planner.plan_steps import plan_supersteps
from ipu_tf.planner.planner import plan_matmul
from ipu_tf.planner.shapes import MatMulShape
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.tile_work import PlanWork
from ipu_tf.tile_program.traffic import move, to_all

_PIECES = 4
"""Number of sizes of the trailing matrix that are planned; blocks between them are charged like the
larger one."""


def cholesky(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a Cholesky factorisation of one matrix or a batch of them."""
    array = instruction.array
    dtype = dtype_of(instruction, array)
    size, batch = array.dims[-1], product(array.dims[:-2])
    block = min(size, context.options.cholesky_block)
    blocks = ceil_div(size, block)
    result = spread(array, context)
    panel = _panel_stages(array.dtype, block, size, blocks, batch, result, context)
    stages = (
        ComputeStage(name="rearrange", where=result, traffic=move(operands[0], result)),
        *panel,
    )
    updates = tuple(
        step
        for rest, times in _trailing(size, block)
        for step in _matmul(batch, rest, block, rest, dtype, times, context)
    )
    return _with_steps(
        lower_stages(stages, (result,), context.target, flops=batch * size**3 // 3), updates
    )


def triangular_solve(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the solution of a triangular system with many right-hand sides."""
    array, matrix = instruction.array, context.operand(instruction, 0).array
    options: TriangularSolveOptions = instruction.attributes["triangular_solve_options"]
    dtype = dtype_of(instruction, matrix)
    size, batch = matrix.dims[-1], product(matrix.dims[:-2])
    sides = array.dims[-1 if options.left_side else -2]
    block = min(size, context.options.triangular_solve_block)
    blocks = ceil_div(size, block)
    result = spread(array, context)
    panel = _panel_stages(array.dtype, block, sides, blocks, batch, result, context)
    stages = (
        ComputeStage(name="rearrange", where=result, traffic=move(operands[1], result)),
        *panel,
    )
    updates = tuple(
        step
        for rest, times in _trailing(size, block)
        for step in _matmul(batch, rest, block, sides, dtype, times, context)
    )
    return _with_steps(
        lower_stages(stages, (result,), context.target, flops=batch * size**2 * sides), updates
    )


def fft(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Rejects Fourier transforms.

    Raises:
        LoweringError: Always.
    """
    raise LoweringError(
        instruction,
        "the IPU has no Fourier transform; write it as a matmul with a constant matrix.",
    )


def _panel_stages(
    dtype: str,
    block: int,
    lines: int,
    blocks: int,
    batch: int,
    where: Placement,
    context: LoweringContext,
) -> tuple[ComputeStage, ...]:
    """Returns the stages of blocks of columns: each scales a column, then subtracts it from others.

    Args:
        dtype: Type of the elements.
        block: Columns of a block.
        lines: Rows below, or right-hand sides; they are dealt to the tiles.
        blocks: Number of blocks, one after the other.
        batch: Matrices, side by side.
        where: The tiles.
        context: The context.
    """
    target = context.target
    share = ceil_div(lines * batch, where.tiles)
    # Columns still to change: half of the block, on average.
    division = vertex_costs.elementwise("divide", share, dtype, target)
    subtracted = vertex_costs.elementwise("subtract", share * ceil_div(block, 2), dtype, target)
    column = Placement(elements=block, element_bytes=where.element_bytes)
    times = blocks * block
    return (
        ComputeStage(name="scale column", where=where, vertex=division, times=times),
        ComputeStage(
            name="subtract column",
            where=where,
            traffic=to_all(column, where.tiles),
            vertex=subtracted,
            times=times,
        ),
    )


def _trailing(size: int, block: int) -> Iterator[tuple[int, int]]:
    """Yields extents of the part behind the blocks, and the number of blocks with each."""
    steps = ceil_div(size, block) - 1
    pieces = min(steps, _PIECES)
    for piece in range(pieces):
        first, last = piece * steps // pieces, (piece + 1) * steps // pieces
        if last > first:
            yield size - (first + 1) * block, last - first


def _matmul(
    batch: int, m: int, k: int, n: int, dtype: str, times: int, context: LoweringContext
) -> tuple[Superstep, ...]:
    shape = MatMulShape(batch=batch, m=m, k=k, n=n, dtype=dtype)
    options = context.options.matmul
    plan = plan_matmul(
        shape,
        context.target,
        partials=options.partials,
        available_memory_proportion=options.available_memory_proportion,
    )
    work = PlanWork(target=context.target, shape=shape, plan=plan)
    steps = plan_supersteps(shape, plan, context.target)
    return tuple(dataclasses.replace(step, work=work) for step in steps) * times


def _with_steps(lowered: LoweredInstruction, steps: tuple[Superstep, ...]) -> LoweredInstruction:
    """Returns a lowered instruction with further supersteps."""
    return dataclasses.replace(lowered, supersteps=lowered.supersteps + steps)


RULES: Mapping[str, Rule] = {
    "cholesky": cholesky,
    "fft": fft,
    "triangular-solve": triangular_solve,
}
