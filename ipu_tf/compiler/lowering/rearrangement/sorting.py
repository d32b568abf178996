"""Sorting and the largest k: tiles order their own share, a bitonic network joins the shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays, element_bytes, like, on_tiles, spread_tiles
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine import vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage, supersteps
from ipu_tf.tile_program.traffic import NOTHING, Traffic, collect, move

_INDEX_BYTES = 4


def sort(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a sort of one or more tensors by the first; tries several numbers of tiles per row."""
    keys = context.operand(instruction, 0).array
    row = keys.dims[instruction.attributes["dimensions"][0]] if keys.dims else 1
    candidates = []
    row_tiles = 1
    while row_tiles == 1 or (row_tiles <= context.target.tiles and 2 * row_tiles <= row):
        candidates.append(_sort_stages(instruction, operands, row, row_tiles, context))
        row_tiles *= 2
    target = context.target
    stages = min(
        candidates,
        key=lambda stages: sum(step.total_cycles for step in supersteps(stages, target)),
    )
    results = tuple(like(stages[0].where, array) for array in arrays(instruction.type))
    return lower_stages(stages, results, target)


def _sort_stages(
    instruction: Instruction,
    operands: Sequence[Placement],
    row: int,
    row_tiles: int,
    context: LoweringContext,
) -> tuple[ComputeStage, ...]:
    """Returns the stages of sorting rows that are dealt to `row_tiles` tiles each."""
    keys, target = context.operand(instruction, 0).array, context.target
    rows = ceil_div(keys.elements, max(1, row))
    tiles = min(target.tiles, rows * row_tiles)
    rows_on_tile = ceil_div(rows * row_tiles, tiles)
    share = ceil_div(row, row_tiles)
    values = len(operands) - 1
    where = Placement(
        elements=keys.elements,
        element_bytes=element_bytes(keys.dtype),
        tiles=max(1, min(tiles, keys.elements)),
        layout=f"rows of {row} on {row_tiles}",
    )
    sort = vertices.sort(share, keys.dtype, target, values=values)
    stages = [
        ComputeStage(
            name="sort on tile",
            where=where,
            traffic=sum((move(operand, where) for operand in operands), NOTHING),
            vertex=sort,
            times=1,
        )
    ]
    stages += [ComputeStage(name="sort on tile", where=where, vertex=sort, times=rows_on_tile - 1)]
    levels = row_tiles.bit_length() - 1
    moved_bytes = rows_on_tile * share * sum(operand.element_bytes for operand in operands)
    stages.append(
        ComputeStage(
            name="merge shares",
            where=where,
            traffic=Traffic(
                received_bytes=moved_bytes,
                sent_bytes=moved_bytes,
                total_bytes=moved_bytes * tiles,
                received=1,
                sent=1,
            )
            if levels
            else NOTHING,
            vertex=vertices.compare_exchange(
                rows_on_tile * share, keys.dtype, target, values=values
            ),
            times=levels * (levels + 1) // 2,
        )
    )
    return tuple(stage for stage in stages if stage.times)


def top_k(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the k largest of rows: first of every share, then of the shares' results."""
    keys, target = context.operand(instruction, 0).array, context.target
    results = tuple(arrays(instruction.type))
    row = keys.dims[-1]
    k = results[0].dims[-1]
    rows = ceil_div(keys.elements, row)
    spread_over = spread_tiles(keys.elements, element_bytes(keys.dtype), target.tiles)
    row_tiles = max(1, min(spread_over // rows, row // max(1, k)))
    where = on_tiles(keys, max(1, min(target.tiles, rows * row_tiles)), context)
    rows_on_tile = ceil_div(rows * row_tiles, where.tiles)
    share = ceil_div(row, row_tiles)
    pair_bytes = element_bytes(keys.dtype) + _INDEX_BYTES
    stages = [
        ComputeStage(
            name="largest on tile",
            where=where,
            traffic=move(operands[0], where),
            vertex=vertices.top_k(rows_on_tile * share, rows_on_tile * k, keys.dtype, target),
        )
    ]
    last = on_tiles(results[0], max(1, min(target.tiles, rows)), context)
    if row_tiles > 1:
        candidates = Placement(
            elements=rows * row_tiles * k, element_bytes=pair_bytes, tiles=where.tiles
        )
        own_rows = ceil_div(rows, last.tiles)
        candidates_of_tile = own_rows * row_tiles * k
        stages.append(
            ComputeStage(
                name="largest of shares",
                where=last,
                traffic=collect(candidates, received_elements=candidates_of_tile, tiles=last.tiles),
                vertex=vertices.top_k(candidates_of_tile, own_rows * k, keys.dtype, target),
            )
        )
    return lower_stages(stages, tuple(like(last, array) for array in results), target)


RULES: Mapping[str, Rule] = {"sort": sort, "topk": top_k}
