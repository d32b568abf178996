"""Plans: how a matmul or convolution is split over tiles, and whether a plan is possible.

A plan is what the planner finds, what the cost model charges and what the tile op executes.
docs/numerics.md defines what it means for the numbers.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TypeAlias

from ipu_tf.compiler.partition import largest_part, partition
from ipu_tf.compiler.shapes import (
    AMP_GRAINS,
    DTYPE_BYTES,
    Block,
    ConvPass,
    ConvShape,
    MatMulShape,
    OpShape,
)
from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target

__all__ = [
    "AMP_GRAINS",
    "ConvPass",
    "ConvPlan",
    "ConvShape",
    "MatMulPlan",
    "MatMulShape",
    "OpShape",
    "Plan",
    "PlanDoesNotFit",
    "block_bytes",
    "check",
    "check_parts",
    "largest_block",
    "partial_dtype",
    "partition",
]


class PlanDoesNotFit(ValueError):
    """A plan needs more memory than a tile may give it."""


class _Plan:
    """What both plans share; their fields are the splits, `grain` and `partials`."""

    __slots__ = ()

    grain: int
    partials: str

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name, value in {**self.splits, "grain": self.grain}.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{owner}.{name} must be a positive int. Received: {value!r}.")
        if self.partials not in DTYPE_BYTES:
            known = " or ".join(repr(dtype) for dtype in DTYPE_BYTES)
            raise ValueError(f"{owner}.partials must be {known}. Received: {self.partials!r}.")

    @property
    def splits(self) -> dict[str, int]:
        """Number of parts of every extent, in the order of `to_list`."""
        fields = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in fields if name not in ("grain", "partials")}

    @property
    def tiles(self) -> int:
        """Number of tiles that the plan occupies."""
        return math.prod(self.splits.values())

    def to_list(self) -> list[int]:
        """Returns the `plan` attribute of the tile op: the splits, then the grain."""
        return [*self.splits.values(), self.grain]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulPlan(_Plan):
    """How `[g, m, k] x [g, k, n]` is split over tiles.

    Attributes:
        batch: Parts of g.
        rows: Parts of m.
        columns: Parts of n.
        reduction: Parts of k; their partial results are added across tiles.
        grain: Reduction elements of one AMP pass.
        partials: Type of the partial results, "float32" or "float16".
    """

    batch: int = 1
    rows: int = 1
    columns: int = 1
    reduction: int = 1
    grain: int = 16
    partials: str = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvPlan(_Plan):
    """How a 2-D convolution, or one of its gradients, is split over tiles.

    The names are those of the pass that runs: for the input gradient the field is the image of
    `dx` and `in_channels` are the filter's output channels (docs/numerics.md).

    Attributes:
        batch: Parts of the batch.
        groups: Parts of the channel groups.
        field_rows: Parts of the field's rows.
        field_columns: Parts of the field's columns.
        out_channels: Parts of a group's output channels.
        in_channels: Parts of a group's input channels.
        kernel_rows: Parts of the filter's rows.
        kernel_columns: Parts of the filter's columns.
        grain: Reduction elements of one AMP pass.
        partials: Type of the partial results, "float32" or "float16".
    """

    batch: int = 1
    groups: int = 1
    field_rows: int = 1
    field_columns: int = 1
    out_channels: int = 1
    in_channels: int = 1
    kernel_rows: int = 1
    kernel_columns: int = 1
    grain: int = 16
    partials: str = "float32"


Plan: TypeAlias = MatMulPlan | ConvPlan


def partial_dtype(dtype: str, partials: str) -> str:
    """Returns the type that partials really have: float32 inputs always have float32 partials.

    Raises:
        ValueError: `partials` is neither "float32" nor "float16".
    """
    if partials not in DTYPE_BYTES:
        raise ValueError(f"`partials` must be 'float32' or 'float16'. Received: {partials!r}.")
    return "float32" if dtype == "float32" else partials


def largest_block(shape: OpShape, splits: Block, grain: int) -> Block:
    """Returns the part size of every extent on the tile with the most to do.

    Args:
        shape: The op.
        splits: Parts of every extent: integers, or arrays with one entry per candidate plan.
        grain: Reduction elements of one AMP pass.
    """
    grains = {shape.grained_split: grain}
    return {
        name: largest_part(extent, splits[name], grains.get(name, 1))
        for name, extent in shape.extents.items()
    }


def block_bytes(shape: OpShape, block: Block, partials: str) -> Count:
    """Returns the bytes of a block on its tile: both inputs and the partials."""
    operands = shape.operands(block)
    input_bytes = (operands.left + operands.right) * DTYPE_BYTES[shape.dtype]
    return input_bytes + operands.output * DTYPE_BYTES[partial_dtype(shape.dtype, partials)]


def check(
    plan: Plan, shape: OpShape, target: Target, available_memory_proportion: float = 0.6
) -> None:
    """Checks that a plan can run.

    Args:
        plan: The plan.
        shape: The op that it is for.
        target: The machine.
        available_memory_proportion: Share of a tile's memory that the op may take, in (0, 1].

    Raises:
        PlanDoesNotFit: The largest block needs more bytes than that share of the tile.
        ValueError: The plan is for another kind of op, splits an extent into more parts than it
            has, needs more tiles than the target has, or the proportion is out of range.
    """
    if not 0 < available_memory_proportion <= 1:
        raise ValueError(
            "`available_memory_proportion` must be above 0 and at most 1. "
            f"Received: {available_memory_proportion!r}."
        )
    check_parts(plan, shape)
    if plan.tiles > target.tiles:
        raise ValueError(
            f"{shape.op}: the plan needs {plan.tiles} tiles, the {target.chip} target has "
            f"{target.tiles}. Use fewer parts. Received: {_written(plan)}."
        )
    _check_memory(plan, shape, target, available_memory_proportion)


def check_parts(plan: Plan, shape: OpShape) -> None:
    """Checks that a plan is of the op's kind and splits no extent into more parts than it has.

    Raises:
        ValueError: It is not, or it does.
    """
    if plan.splits.keys() != shape.extents.keys():
        raise ValueError(
            f"A {type(plan).__name__} does not describe a {shape.op}: it takes a "
            f"{'MatMulPlan' if isinstance(shape, MatMulShape) else 'ConvPlan'}. Received: {plan!r}."
        )
    for name, extent in shape.extents.items():
        parts = plan.splits[name]
        grain = plan.grain if name == shape.grained_split else 1
        units = ceil_div(extent, grain)
        if parts > units:
            grains = f" (grain {grain})" if grain > 1 else ""
            raise ValueError(
                f"{shape.op}: the plan splits {name} of {extent} elements{grains} into {parts} "
                f"parts, at most {units} are possible. Received: {_written(plan)}."
            )


def _check_memory(plan: Plan, shape: OpShape, target: Target, proportion: float) -> None:
    needed = int(block_bytes(shape, largest_block(shape, plan.splits, plan.grain), plan.partials))
    limit = int(target.tile_bytes * proportion)
    if needed > limit:
        raise PlanDoesNotFit(
            f"{shape.op}: the largest block of the plan needs {needed} bytes of its tile, "
            f"{limit} are available ({proportion} of {target.tile_bytes} on {target.chip}). Split "
            "more, or raise availableMemoryProportion in the poplar_options of matmuls or "
            f"convolutions. Received: {_written(plan)}."
        )


def _written(plan: Plan) -> str:
    """Returns the plan with only the splits that split."""
    splits = [f"{name}={parts}" for name, parts in plan.splits.items() if parts > 1]
    return f"{type(plan).__name__}({', '.join([*splits, f'grain={plan.grain}'])})"
