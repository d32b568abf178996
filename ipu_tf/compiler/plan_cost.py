"""What a plan costs on the machine, for one plan or for thousands at once.

Three supersteps are modelled: every tile receives its operands, multiplies, and, where a
reduction is split, the partials are exchanged and added up. Operands lie spread evenly over the
tiles that read them. Not modelled: the order of tiles, layout transforms, casts, code size.
"""

from __future__ import annotations

import math

from ipu_tf.compiler.plan import block_bytes, largest_block, partial_dtype
from ipu_tf.compiler.shapes import DTYPE_BYTES, Block, Operands, OpShape
from ipu_tf.machine.cost import (
    Cost,
    Count,
    amp_cycles,
    ceil_div,
    exchange_cycles,
    reduce_cycles,
)
from ipu_tf.machine.target import Target


def parts_product(splits: Block, names: tuple[str, ...]) -> Count:
    """Returns the product of the parts of the named extents."""
    return math.prod(splits[name] for name in names)


def plan_cost(shape: OpShape, splits: Block, *, grain: int, partials: str, target: Target) -> Cost:
    """Returns the modelled cycles of a plan.

    Args:
        shape: The op.
        splits: Parts of every extent: integers, or arrays with one entry per candidate plan.
        grain: Reduction elements of one AMP pass.
        partials: Type of the partial results.
        target: The machine.
    """
    block = largest_block(shape, splits, grain)
    operands = shape.operands(block)
    return (
        gather_cost(shape, splits, operands, target)
        + multiply_cost(shape, block, grain, target)
        + reduction_cost(shape, splits, operands.output, partials, target)
    )


def plan_bytes(shape: OpShape, splits: Block, *, grain: int, partials: str) -> Count:
    """Returns the bytes of a plan's largest block on its tile."""
    return block_bytes(shape, largest_block(shape, splits, grain), partials)


def gather_cost(shape: OpShape, splits: Block, operands: Operands, target: Target) -> Cost:
    """Returns the cost of bringing each tile the share of its operands that lies elsewhere."""
    left_elsewhere = _elsewhere(operands.left, parts_product(splits, shape.left_shared_by))
    right_elsewhere = _elsewhere(operands.right, parts_product(splits, shape.right_shared_by))
    received_bytes = (left_elsewhere + right_elsewhere) * DTYPE_BYTES[shape.dtype]
    return Cost(
        exchange_cycles=exchange_cycles(received_bytes, target),
        sync_cycles=target.sync_cycles,
    )


def multiply_cost(shape: OpShape, block: Block, grain: int, target: Target) -> Cost:
    """Returns the cost of the slowest tile's multiply-accumulates."""
    work = shape.amp_work(block, grain)
    cycles = amp_cycles(
        rows=work.rows,
        columns=work.columns,
        reduction_passes=work.reduction_passes,
        grain=grain,
        dtype=shape.dtype,
        target=target,
    )
    return Cost(compute_cycles=cycles)


def reduction_cost(
    shape: OpShape, splits: Block, partial_elements: Count, partials: str, target: Target
) -> Cost:
    """Returns the cost of adding the partials: each tile adds its share of its output block."""
    depth = parts_product(splits, shape.reduction_splits)
    partial_bytes = DTYPE_BYTES[partial_dtype(shape.dtype, partials)]
    share = ceil_div(partial_elements, depth)
    return Cost(
        exchange_cycles=exchange_cycles(share * (depth - 1) * partial_bytes, target),
        compute_cycles=reduce_cycles(
            elements=share, depth=depth, partial_bytes=partial_bytes, target=target
        ),
        sync_cycles=(depth > 1) * target.sync_cycles,
    )


def _elsewhere(elements: Count, readers: Count) -> Count:
    return elements - ceil_div(elements, readers)
