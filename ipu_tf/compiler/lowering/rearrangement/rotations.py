"""Eigenvalues of symmetric matrices by Jacobi rotations, many at a time.

As in tessellate-ipu's `ipu_eigh`: a tile holds pairs of columns, of the matrix and of its
eigenvectors. In a round every tile finds the rotations of its pairs, all tiles get them and rotate
rows and columns, and columns move on to meet others; a sweep is a round for every partner.
Modelled: as many sweeps as the call allows. The machine ends earlier once the matrix is diagonal,
which depends on its values; the test for that costs nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ipu_tf.compiler.hlo import Array, Instruction
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays, on_tiles, product, spread
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import move, to_all

_QUOTIENTS_AND_ROOTS = 4
"""Of a rotation: the ratio that gives its angle, two roots, a quotient. Roots cost as quotients."""

_ROTATED = 3
"""Rotations of a round: of the matrix's rows, its columns, and the eigenvectors' columns."""


def eigen(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a custom call of "Eigh": eigenvectors, then eigenvalues.

    Raises:
        LoweringError: It does not say how many sweeps it allows.
    """
    vectors, values = arrays(instruction.type)
    size, batch = vectors.dims[-1], product(vectors.dims[:-2])
    pairs = ceil_div(size, 2)
    where = on_tiles(vectors, batch * pairs, context, layout="pairs of columns")
    rounds = _sweeps(instruction) * max(1, 2 * pairs - 1)
    stages = (
        ComputeStage(name="rearrange", where=where, traffic=move(operands[0], where)),
        *_round(vectors, where, rounds, context),
    )
    # Three operations an element: two products and their sum.
    flops = 3 * _ROTATED * rounds * batch * size * size
    return lower_stages(stages, (where, spread(values, context)), context.target, flops=flops)


def _sweeps(instruction: Instruction) -> int:
    """Returns the most sweeps: of "lower, sorted, sweeps, tolerance", the third."""
    config = instruction.attributes.get("backend_config", "")
    fields = config.split(",")
    if len(fields) != 4 or not fields[2].isdecimal():
        raise LoweringError(
            instruction,
            "its backend_config must be 'lower,sorted,sweeps,tolerance', with a number of sweeps. "
            f"Received: {config!r}.",
        )
    return int(fields[2])


def _round(
    matrix: Array, where: Placement, rounds: int, context: LoweringContext
) -> tuple[ComputeStage, ...]:
    """Returns the stages of all rounds: find rotations, apply them, move columns on."""
    target, dtype = context.target, matrix.dtype
    size, batch = matrix.dims[-1], product(matrix.dims[:-2])
    pairs = ceil_div(size, 2)
    share = ceil_div(batch * pairs, where.tiles)
    vertex = vertex_costs.elementwise("divide", _QUOTIENTS_AND_ROOTS * share, dtype, target)
    # A sine and a cosine for every pair of the matrices that a tile has columns of.
    angles = Placement(
        elements=2 * pairs * ceil_div(share, max(1, pairs)), element_bytes=where.element_bytes
    )
    elements = _ROTATED * share * 2 * size
    columns = _both(where, "pairs of columns"), _both(where, "the next pairs of columns")
    return (
        ComputeStage(name="find rotations", where=where, vertex=vertex, times=rounds),
        ComputeStage(
            name="multiply by rotations",
            where=where,
            traffic=to_all(angles, where.tiles),
            vertex=vertex_costs.elementwise("multiply", 2 * elements, dtype, target),
            times=rounds,
        ),
        ComputeStage(
            name="add rotated",
            where=where,
            vertex=vertex_costs.elementwise("add", elements, dtype, target),
            times=rounds,
        ),
        ComputeStage(
            name="move columns on", where=columns[1], traffic=move(*columns), times=rounds
        ),
    )


def _both(where: Placement, layout: str) -> Placement:
    """Returns the common placement of the matrix and its eigenvectors."""
    return Placement(
        elements=2 * where.elements,
        element_bytes=where.element_bytes,
        tiles=where.tiles,
        layout=layout,
    )
