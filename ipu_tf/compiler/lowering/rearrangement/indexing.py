"""Gather and scatter: rows of a table, looked up or updated at indices known at run time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Array, Instruction
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays, element_bytes, on_tiles
from ipu_tf.compiler.lowering.rearrangement.table_access import TableAccess, table_access
from ipu_tf.compiler.lowering.rearrangement.table_cost import (
    TableStage,
    lookup_stages,
    update_stages,
)
from ipu_tf.compiler.lowering.rearrangement.table_shape import part_of
from ipu_tf.compiler.lowering.rules import Rule, root_opcode
from ipu_tf.compiler.lowering.stages import footprint_on, lower_stages
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.layout import BlockLayout
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import NOTHING, Traffic, collect, move


def gather(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a gather: tiles visit the indices of their group and copy the rows that they hold.

    If rows are in several parts, a second look-up collects the results of the parts.
    """
    table, indices = operands
    access = table_access(instruction, context)
    plan, part = access.plan, part_of(access.shape, access.plan)
    home = _home(access, table, context.operand(instruction, 0).array, context)
    rows = instruction.array
    result = _rows(access, rows.elements, element_bytes(rows.dtype), home)
    where = _workers(home, plan.tiles)
    look_up, collect_rows = lookup_stages(access.shape, plan, context.target)
    copies = _copies(home, int(part.block_bytes), plan.lookup_parts, plan.tiles)
    stages = [
        ComputeStage(name="rearrange table", where=home, traffic=move(table, home)),
        _stage(look_up, where, copies + _indices(indices, access)),
    ]
    scratch: tuple[Footprint, ...] = ()
    if plan.row_parts > 1:
        found_bytes = int(part.found_bytes)
        scratch = (footprint_on(where, found_bytes),)
        stages.append(_stage(collect_rows, where, _all_to_all(collect_rows, found_bytes)))
    return lower_stages(stages, (result,), context.target, scratch=scratch)


def scatter(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a scatter: tiles visit the indices of their group and update the rows that they hold.

    Several groups update zeros of their own, whose sums go into the table.
    """
    results = tuple(arrays(instruction.type))
    count = len(results)
    access = table_access(instruction, context)
    home = _home(access, operands[0], results[0], context)
    combiner = root_opcode(instruction, context)
    stages: list[ComputeStage] = []
    for number, result in enumerate(results):
        stages += [
            _table_in_place(operands[number], _like(home, result), result, context),
            *_updates(
                dataclasses.replace(
                    access, shape=dataclasses.replace(access.shape, dtype=result.dtype)
                ),
                _like(home, result),
                operands[count + 1 + number],
                operands[count],
                combiner,
                context,
            ),
        ]
    scratch: tuple[Footprint, ...] = ()
    if access.plan.lookup_parts > 1:
        partials = part_of(access.shape, access.plan).block_bytes
        scratch = (footprint_on(_workers(home, access.plan.tiles), int(partials)),)
    adds = combiner == "add" and results[0].dtype.startswith(("f", "bf"))
    updates = context.operand(instruction, count + 1).array
    return lower_stages(
        stages,
        tuple(_like(home, result) for result in results),
        context.target,
        in_place=0,
        scratch=scratch,
        flops=count * updates.elements if adds else 0,
    )


def preferred_table(
    instruction: Instruction, operand: int, context: LoweringContext
) -> Placement | None:
    """Returns the preferred placement of a gather's or scatter's table; None for other operands."""
    table = context.operand(instruction, 0).array
    if operand != 0 or not table.elements:
        return None
    access = table_access(instruction, context)
    return on_tiles(table, access.plan.tiles, context, layout=access.table_layout)


def _table_in_place(
    table: Placement, home: Placement, array: Array, context: LoweringContext
) -> ComputeStage:
    """Returns the stage that brings a table to where it is updated, or fills it there."""
    has_repeats = table.repeats is not None
    fill = vertex_costs.fill(home.tile_elements, array.dtype, context.target)
    return ComputeStage(
        name="fill" if has_repeats else "rearrange table",
        where=home,
        traffic=move(table, home),
        vertex=fill if has_repeats else None,
        into_place=True,
    )


def _updates(
    access: TableAccess,
    home: Placement,
    updates: Placement,
    indices: Placement,
    combiner: str,
    context: LoweringContext,
) -> list[ComputeStage]:
    """Returns the stages that update a table in its place.

    Args:
        access: The scatter.
        home: The placement of the table.
        updates: The placement of the rows that go into it.
        indices: The placement of their indices.
        combiner: The opcode that combines a row with what is there.
        context: The context.
    """
    plan, part = access.plan, part_of(access.shape, access.plan)
    where = _workers(home, plan.tiles)
    fill, update, *sums, add = update_stages(access.shape, plan, context.target, combiner=combiner)
    rows = _rows(access, updates.elements, updates.element_bytes, home)
    stages = [_stage(fill, where, NOTHING)]
    row_traffic = move(updates, rows)
    if plan.row_parts > 1:
        stages.append(ComputeStage(name="rearrange rows", where=rows, traffic=row_traffic))
        row_traffic = _copies(rows, int(part.found_bytes), plan.row_parts, plan.tiles)
    stages.append(_stage(update, where, row_traffic + _indices(indices, access)))
    stages += [_stage(one, where, _all_to_all(one, int(part.block_bytes))) for one in sums]
    return [*stages, _stage(add, where, NOTHING)]


def _stage(stage: TableStage, where: Placement, traffic: Traffic) -> ComputeStage:
    tiles = int(stage.tiles)
    workers = dataclasses.replace(where, elements=tiles, tiles=tiles)
    return ComputeStage(name=stage.name, where=workers, traffic=traffic, vertex=stage.vertex)


def _copies(source: Placement, block_bytes: int, parts: int, tiles: int) -> Traffic:
    """Returns the traffic that brings every tile the block that it shares with others.

    Args:
        source: The placement of the blocks, each on the tiles that share it.
        block_bytes: Bytes of a block.
        parts: Tiles that share one.
        tiles: Tiles of the plan.
    """
    if parts == 1:
        return NOTHING
    elements = ceil_div(int(block_bytes), source.element_bytes)
    traffic = collect(source, received_elements=elements, tiles=tiles)
    return dataclasses.replace(traffic, received=min(parts, elements), sent=1)


def _indices(indices: Placement, access: TableAccess) -> Traffic:
    """Returns the traffic that gives every tile the indices of its group."""
    plan = access.plan
    group_indices = ceil_div(indices.elements, plan.lookup_parts)
    traffic = collect(indices, received_elements=group_indices, tiles=plan.tiles)
    listeners = ceil_div((indices.repeats or indices).tile_elements, max(1, group_indices)) + 1
    return dataclasses.replace(traffic, sent=min(traffic.sent, listeners))


def _all_to_all(stage: TableStage, sent_bytes: int) -> Traffic:
    """Returns the traffic in which the tiles of a group exchange pieces of their results.

    Args:
        stage: The stage that receives them.
        sent_bytes: Bytes of the results of a tile.
    """
    receive_bytes, pieces = int(stage.received_bytes), int(stage.pieces)
    if not receive_bytes:
        return NOTHING
    return Traffic(
        received_bytes=receive_bytes,
        sent_bytes=min(int(sent_bytes), receive_bytes),
        total_bytes=receive_bytes * int(stage.tiles),
        received=pieces,
        sent=pieces,
    )


def _home(
    access: TableAccess, table: Placement, array: Array, context: LoweringContext
) -> Placement:
    """Returns the placement of the table: the current one if it is split as planned."""
    spread = on_tiles(array, access.plan.tiles, context, layout=access.table_layout)
    at = dataclasses.replace(spread, first_tile=table.first_tile)
    return at if table.aligned(at) else context.aligned(spread)


def _workers(home: Placement, tiles: int) -> Placement:
    """Returns a placement on all tiles of a plan: more than hold the table, if it is small."""
    return Placement(elements=tiles, element_bytes=1, first_tile=home.first_tile, tiles=tiles)


def _rows(access: TableAccess, elements: int, element_bytes: int, home: Placement) -> Placement:
    """Returns the placement of the rows that a plan finds, or writes."""
    layout = access.rows_layout
    tiles = layout.tiles if isinstance(layout, BlockLayout) else access.plan.tiles
    return Placement(
        elements=elements,
        element_bytes=element_bytes,
        first_tile=home.first_tile,
        tiles=max(1, min(tiles, elements)),
        layout=layout,
    )


def _like(where: Placement, array: Array) -> Placement:
    return dataclasses.replace(
        where, element_bytes=element_bytes(array.dtype), repeats=None, pattern=()
    )


RULES: Mapping[str, Rule] = {"gather": gather, "scatter": scatter}
