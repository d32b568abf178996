"""QR factorisations by Householder reflections, one column after the other.

As in poplin's `experimental/QRFactorization`: a tile holds whole columns; tiles share the next
column in pieces of one element per worker and turn it into a reflector, which all tiles get and
apply to their columns. XLA's two custom calls apply it to the two matrices R and Q.
"""

from __future__ import annotations

from collections.abc import Sequence

from ipu_tf.compiler.hlo import Array, Instruction
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays, on_tiles, product, spread
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine import vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import collect, move, to_all

_LAYOUT = "whole columns"


def factor(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a custom call of "Qr": R above the diagonal, reflectors below, and their factors."""
    matrix, factors = arrays(instruction.type)
    where = _columns(matrix, context)
    count, length = _reflectors(matrix)
    stages = (
        ComputeStage(name="rearrange", where=where, traffic=move(operands[0], where)),
        *_making(matrix, count, length, where, context),
        *_applying(matrix, count, length, where, context),
    )
    results = (where, spread(factors, context))
    flops = _flops(matrix, count, length)
    return lower_stages(stages, results, context.target, flops=flops)


def orthogonal(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a custom call of "ProductOfElementaryHouseholderReflectors": the matrix Q."""
    matrix = instruction.array
    where = _columns(matrix, context)
    count, length = _reflectors(context.operand(instruction, 0).array)
    flops = _flops(matrix, count, length)
    stages = _applying(matrix, count, length, where, context)
    return lower_stages(stages, (where,), context.target, flops=flops)


def _columns(matrix: Array, context: LoweringContext) -> Placement:
    """Returns the placement of a matrix, or a batch of them, by whole columns."""
    columns = product(matrix.dims[:-2]) * matrix.dims[-1]
    return on_tiles(matrix, columns, context, layout=_LAYOUT)


def _reflectors(matrix: Array) -> tuple[int, int]:
    """Returns how many reflectors a matrix has, and their mean length: each is one shorter."""
    rows, columns = matrix.dims[-2:]
    count = min(rows, columns)
    return count, ceil_div(2 * rows - count + 1, 2)


def _making(
    matrix: Array, count: int, length: int, where: Placement, context: LoweringContext
) -> tuple[ComputeStage, ...]:
    """Returns the stages that make `count` reflectors in turn; a batch runs side by side."""
    target, dtype = context.target, matrix.dtype
    batch, size = product(matrix.dims[:-2]), where.element_bytes
    elements = length * batch
    source = Placement(elements=elements, element_bytes=size, tiles=min(where.tiles, batch))
    tiles = min(target.tiles, ceil_div(elements, target.workers))
    column = Placement(elements=elements, element_bytes=size, tiles=tiles, layout="column")
    sums = Placement(elements=batch, element_bytes=size, tiles=min(target.tiles, batch))
    share, pieces = column.tile_elements, ceil_div(length, target.workers)
    partials = sums.tile_elements * pieces
    return (
        ComputeStage(
            name="square column",
            where=column,
            traffic=move(source, column),
            vertex=vertex_costs.elementwise("multiply", share, dtype, target),
            times=count,
        ),
        ComputeStage(
            name="add squares",
            where=sums,
            traffic=collect(column, received_elements=partials, tiles=sums.tiles),
            vertex=vertices.reduce(sums.tile_elements, pieces, dtype, target),
            times=count,
        ),
        ComputeStage(
            name="make reflector",
            where=column,
            traffic=collect(sums, received_elements=1, tiles=tiles),
            vertex=vertex_costs.elementwise("divide", share, dtype, target),
            times=count,
        ),
    )


def _applying(
    matrix: Array, count: int, length: int, where: Placement, context: LoweringContext
) -> tuple[ComputeStage, ...]:
    """Returns the stages that apply `count` reflectors: products with columns, subtractions.

    A tile gets the reflectors of the matrices whose columns it holds.
    """
    target, dtype = context.target, matrix.dtype
    columns = matrix.dims[-1]
    share = ceil_div(product(matrix.dims[:-2]) * columns, where.tiles)
    reflectors = Placement(
        elements=length * ceil_div(share, max(1, columns)), element_bytes=where.element_bytes
    )
    return (
        ComputeStage(
            name="multiply by reflector",
            where=where,
            traffic=to_all(reflectors, where.tiles),
            vertex=vertex_costs.elementwise("multiply", share * length, dtype, target),
            times=count,
        ),
        ComputeStage(
            name="subtract reflection",
            where=where,
            vertex=vertex_costs.elementwise("subtract", share * length, dtype, target),
            times=count,
        ),
    )


def _flops(matrix: Array, count: int, length: int) -> int:
    """Returns the operations that apply reflectors: two for the product, two to subtract it."""
    return 4 * count * length * product(matrix.dims[:-2]) * matrix.dims[-1]
