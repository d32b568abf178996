"""Gather and scatter: rows of a table, looked up or updated at indices known at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.hlo import (
    Array,
    GatherDimensions,
    Instruction,
    ScatterDimensions,
)
from ipu_tf.compiler.lowering import cached
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays, element_bytes, on_tiles, product
from ipu_tf.compiler.lowering.rearrangement.table_plan import TablePlan, plan_table
from ipu_tf.compiler.lowering.rules import Rule, array_of, operand_array, root_opcode
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import Traffic, collect, move, to_all


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lookup:
    """A gather or scatter as rows of a table.

    Attributes:
        rows: Rows of the table.
        columns: Elements of a row.
        lookups: Rows that are read or written.
    """

    rows: int
    columns: int
    lookups: int


def gather(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a gather: all tiles visit all indices and copy the rows that they hold.

    If rows are in several parts, a second look-up collects the results of the parts.
    """
    table = operand_array(instruction, 0, context)
    array = array_of(instruction)
    lookup = _gather_lookup(instruction, table, array)
    plan = _plan(lookup, table, context)
    where = _table_placement(plan, table, operands[0], context)
    share = ceil_div(lookup.columns, plan.column_parts)
    stages = [
        ComputeStage(
            name="look up",
            where=where,
            traffic=move(operands[0], where) + to_all(operands[1], plan.tiles),
            vertex=cached.multi_slice(share, lookup.lookups, table.dtype, context.target),
        )
    ]
    result = _result_placement(plan, array, where)
    scratch: tuple[Footprint, ...] = ()
    if plan.row_parts > 1:
        own = ceil_div(lookup.lookups, plan.row_parts)
        size = element_bytes(table.dtype)
        found = lookup.lookups * share * size
        scratch = (Footprint(first_tile=where.first_tile, tiles=plan.tiles, tile_bytes=found),)
        collected = Traffic(
            received_bytes=own * share * size,
            sent_bytes=min(found, own * share * size * plan.row_parts),
            total_bytes=array.bytes,
            received=min(own, plan.row_parts),
            sent=min(own, plan.row_parts),
        )
        stages.append(
            ComputeStage(
                name="collect rows",
                where=where,
                traffic=collected,
                vertex=cached.multi_slice(share, own, table.dtype, context.target),
            )
        )
    return lower_stages(stages, (result,), context.target, scratch=scratch)


def scatter(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a scatter: every tile gets its columns of all updates and applies those it has."""
    results = tuple(arrays(instruction.type))
    count = len(results)
    table, indices = operand_array(instruction, 0, context), operands[count]
    updates = operand_array(instruction, count + 1, context)
    lookup = _scatter_lookup(instruction, table, updates)
    plan = _plan(lookup, table, context)
    where = _table_placement(plan, table, operands[0], context)
    share = ceil_div(lookup.columns, plan.column_parts)
    combiner = root_opcode(instruction, context)
    stages = []
    for number in range(count):
        dtype = results[number].dtype
        filled = operands[number].repeats is not None
        stages += [
            ComputeStage(
                name="fill" if filled else "rearrange table",
                where=where,
                traffic=move(operands[number], where),
                vertex=cached.fill(where.tile_elements, dtype, context.target) if filled else None,
                into_place=True,
            ),
            ComputeStage(
                name="update rows",
                where=where,
                traffic=to_all(indices, plan.tiles)
                + collect(
                    operands[count + 1 + number],
                    received_elements=lookup.lookups * share,
                    tiles=plan.tiles,
                ),
                vertex=cached.multi_update(
                    share,
                    lookup.lookups,
                    dtype,
                    context.target,
                    accumulate=combiner != "parameter",
                ),
            ),
        ]
    placements = tuple(_table_like(where, result) for result in results)
    adds = combiner == "add" and table.dtype.startswith(("f", "bf"))
    return lower_stages(
        stages,
        placements,
        context.target,
        in_place=0,
        flops=count * updates.elements if adds else 0,
    )


def preferred_table(
    instruction: Instruction, operand: int, context: LoweringContext
) -> Placement | None:
    """Returns the preferred placement of a gather's or scatter's table; None for other operands."""
    table = operand_array(instruction, 0, context)
    if operand != 0 or not table.elements:
        return None
    if instruction.opcode == "gather":
        lookup = _gather_lookup(instruction, table, array_of(instruction))
    else:
        count = sum(1 for _ in arrays(instruction.type))
        lookup = _scatter_lookup(instruction, table, operand_array(instruction, count + 1, context))
    plan = _plan(lookup, table, context)
    return on_tiles(table, plan.tiles, context, layout=plan.layout)


def _gather_lookup(instruction: Instruction, table: Array, result: Array) -> _Lookup:
    numbers: GatherDimensions = instruction.attributes["gather_dimension_numbers"]
    del numbers  # The choice of offset dimensions does not change the traffic.
    columns = product(instruction.attributes["gather_slice_sizes"])
    return _lookup(table, columns, result.elements)


def _scatter_lookup(instruction: Instruction, table: Array, updates: Array) -> _Lookup:
    numbers: ScatterDimensions = instruction.attributes["scatter_dimension_numbers"]
    window = product([updates.dims[axis] for axis in numbers.update_window_dims])
    return _lookup(table, window, updates.elements)


def _lookup(table: Array, columns: int, moved: int) -> _Lookup:
    return _Lookup(
        rows=max(1, ceil_div(table.elements, columns)),
        columns=columns,
        lookups=max(1, ceil_div(moved, columns)),
    )


def _plan(lookup: _Lookup, table: Array, context: LoweringContext) -> TablePlan:
    return plan_table(
        rows=lookup.rows,
        columns=lookup.columns,
        lookups=lookup.lookups,
        dtype=table.dtype,
        target=context.target,
    )


def _table_placement(
    plan: TablePlan, table: Array, operand: Placement, context: LoweringContext
) -> Placement:
    """Returns the placement of the table: the current one if it is split as planned."""
    if operand.layout == plan.layout and operand.repeats is None:
        return _table_like(operand, table)
    return on_tiles(table, plan.tiles, context, layout=plan.layout)


def _table_like(where: Placement, array: Array) -> Placement:
    return Placement(
        elements=array.elements,
        element_bytes=element_bytes(array.dtype),
        first_tile=where.first_tile,
        tiles=max(1, min(where.tiles, array.elements)),
        layout=where.layout,
    )


def _result_placement(plan: TablePlan, result: Array, where: Placement) -> Placement:
    """Returns the placement of looked-up rows: each tile holds its columns of its share of them."""
    return Placement(
        elements=result.elements,
        element_bytes=element_bytes(result.dtype),
        first_tile=where.first_tile,
        tiles=max(1, min(plan.tiles, result.elements)),
        layout=f"rows of {plan.layout}",
    )


RULES: Mapping[str, Rule] = {"gather": gather, "scatter": scatter}
