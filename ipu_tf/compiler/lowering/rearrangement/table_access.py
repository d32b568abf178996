"""Gathers and scatters as accesses to the rows of a table, with their plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Array, GatherDimensions, Instruction, ScatterDimensions
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.mapping import arrays, product
from ipu_tf.compiler.lowering.rearrangement.table_cost import COMBINED_IN_GROUPS
from ipu_tf.compiler.lowering.rearrangement.table_plan import TablePlan, TableUses, plan_table
from ipu_tf.compiler.lowering.rearrangement.table_shape import TableShape
from ipu_tf.compiler.lowering.rules import root_opcode
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """A gather or a scatter.

    Attributes:
        shape: Its table, and how many rows it moves.
        plan: How they are split over tiles.
        is_of_rows: Whether both the rows of the table and those that move follow one another, so
            that blocks of them are known. Windows at any place, and columns, have a name only.
    """

    shape: TableShape
    plan: TablePlan
    is_of_rows: bool

    @property
    def table_layout(self) -> Layout:
        """Layout of the table."""
        return self.plan.table_layout(self.shape) if self.is_of_rows else self.plan.name

    @property
    def rows_layout(self) -> Layout:
        """Layout of the rows that are found, or written."""
        if self.is_of_rows:
            return self.plan.rows_layout(self.shape)
        return f"rows of {self.plan.name}"


def table_access(instruction: Instruction, context: LoweringContext) -> TableAccess:
    """Returns the access that a gather or a scatter makes to its table."""
    table = context.operand(instruction, 0).array
    if instruction.opcode == "gather":
        rows, window = instruction.array, _gather_window(instruction)
        numbers: GatherDimensions = instruction.attributes["gather_dimension_numbers"]
        inner = numbers.offset_dims
    else:
        count = sum(1 for _ in arrays(instruction.type))
        rows = context.operand(instruction, count + 1).array
        inner, window = _scatter_window(instruction, table, rows)
    columns = product(window)
    shape = TableShape(
        rows=max(1, ceil_div(table.elements, columns)),
        columns=columns,
        lookups=max(1, ceil_div(rows.elements, columns)),
        dtype=table.dtype,
    )
    rank = len(rows.dims)
    return TableAccess(
        shape=shape,
        plan=plan_table(shape, _uses(instruction, shape, context), context.target),
        is_of_rows=_is_of_rows(table.dims, window)
        and sorted(inner) == list(range(rank - len(inner), rank))
        and rows.elements == shape.lookups * columns,
    )


def _gather_window(instruction: Instruction) -> tuple[int, ...]:
    return tuple(instruction.attributes["gather_slice_sizes"])


def _scatter_window(
    instruction: Instruction, table: Array, updates: Array
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the dimensions of updates that are windows, and a window's extents in the table."""
    numbers: ScatterDimensions = instruction.attributes["scatter_dimension_numbers"]
    inner = numbers.update_window_dims
    left_out = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    extents = iter([updates.dims[axis] for axis in inner])
    return inner, tuple(1 if axis in left_out else next(extents) for axis in range(len(table.dims)))


def _is_of_rows(dims: Sequence[int], window: Sequence[int]) -> bool:
    """Returns whether a window has one element along some first dimensions, and all of the rest."""
    first = next((axis for axis, extent in enumerate(window) if extent != 1), len(window))
    return bool(dims) and tuple(window[first:]) == tuple(dims[first:])


def _uses(instruction: Instruction, shape: TableShape, context: LoweringContext) -> TableUses:
    """Returns what the module does with tables of a shape: gradients lie as their tables do."""
    opcodes, in_groups = {instruction.opcode}, _works_in_groups(instruction, context)
    for other, table, columns in _accesses(context):
        if table.elements == shape.rows * shape.columns and columns == shape.columns:
            opcodes.add(other.opcode)
            in_groups &= _works_in_groups(other, context)
    return TableUses(
        looks_up="gather" in opcodes, updates="scatter" in opcodes, in_groups=in_groups
    )


def _works_in_groups(instruction: Instruction, context: LoweringContext) -> bool:
    if instruction.opcode == "gather":
        return True
    return root_opcode(instruction, context) in COMBINED_IN_GROUPS


def _accesses(context: LoweringContext) -> Iterator[tuple[Instruction, Array, int]]:
    """Yields the gathers and scatters of the module, with their tables and the size of a row."""
    for computation in context.computations.values():
        accesses = [one for one in computation if one.opcode in ("gather", "scatter")]
        inside = computation.by_name() if accesses else {}
        for one in accesses:
            table, rows = (inside[one.operands[index]].type for index in (0, -1))
            if not isinstance(table, Array) or not isinstance(rows, Array):
                continue
            if one.opcode == "gather":
                window = _gather_window(one)
            else:
                _, window = _scatter_window(one, table, rows)
            yield one, table, product(window)
