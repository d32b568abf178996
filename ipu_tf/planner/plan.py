"""Plans: how a matmul or convolution is split over tiles; checks that a plan is possible.

The planner finds a plan, the cost model charges it, and the tile op executes it.
docs/numerics.md defines how it determines the numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from ipu_tf.machine.contractions import METHODS
from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.vertices.broadcasts import FEATURE_GROUP
from ipu_tf.planner.partition import largest_part, partition
from ipu_tf.planner.shapes import (
    AMP_GRAINS,
    PARTIAL_DTYPES,
    Block,
    ConvPass,
    ConvShape,
    Family,
    MatMulShape,
    OpShape,
)

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
    "check_parts",
    "cut_grain",
    "cut_grains",
    "largest_block",
    "partial_dtype",
    "partition",
    "written",
]


_SERIAL = "serial_"
_TEXTS = ("partials", "method")

_AMP = "amp_"
"""How the names of methods begin whose results lie in groups of features."""


class PlanDoesNotFit(ValueError):
    """A plan needs more memory than it may use on a tile."""


class _Plan:
    """Base of both plans, whose fields are the splits, the serial steps and these three."""

    __slots__ = ()
    _OPTIONS: ClassVar[tuple[str, ...]] = ("grain", "partials", "method")

    grain: int
    partials: str
    method: str

    def __post_init__(self) -> None:
        owner = type(self).__name__
        numbers = {name: getattr(self, name) for name in self._names() if name not in _TEXTS}
        for name, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{owner}.{name} must be a positive int. Received: {value!r}.")
        if self.partials not in PARTIAL_DTYPES:
            names = " or ".join(repr(dtype) for dtype in PARTIAL_DTYPES)
            raise ValueError(f"{owner}.partials must be {names}. Received: {self.partials!r}.")
        if self.method not in METHODS:
            names = ", ".join(repr(method) for method in METHODS)
            raise ValueError(f"{owner}.method must be one of {names}. Received: {self.method!r}.")
        for name, steps in self.serial.items():
            if self.splits[name] % steps:
                raise ValueError(
                    f"{owner}.serial_{name} must divide the {self.splits[name]} parts of {name}: "
                    f"every tile takes as many steps. Received: {steps!r}."
                )

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def split_names(cls) -> tuple[str, ...]:
        """The extents that are split, in the order of `to_list`."""
        return tuple(
            name
            for name in cls._names()
            if name not in cls._OPTIONS and not name.startswith(_SERIAL)
        )

    @classmethod
    def serial_names(cls) -> tuple[str, ...]:
        """The extents whose parts may follow one another on a tile."""
        names = (name for name in cls._names() if name.startswith(_SERIAL))
        return tuple(name.removeprefix(_SERIAL) for name in names)

    @property
    def splits(self) -> dict[str, int]:
        """Number of parts of every extent, in the order of `to_list`."""
        return {name: getattr(self, name) for name in self.split_names()}

    @property
    def serial(self) -> dict[str, int]:
        """Parts of an extent that one tile computes, one after the other."""
        return {name: getattr(self, _SERIAL + name) for name in self.serial_names()}

    @property
    def parts(self) -> int:
        """Number of blocks: every combination of parts."""
        return math.prod(self.splits.values())

    @property
    def steps(self) -> int:
        """Number of blocks that every tile computes, one after the other."""
        return math.prod(self.serial.values())

    @property
    def tiles(self) -> int:
        """Number of tiles that the plan occupies."""
        return self.parts // self.steps

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
        reduction: Parts of k; their partial results are added up.
        grain: Reduction elements of one AMP pass.
        partials: Type of the partial results, "float32" or "float16".
        method: The vertices that compute a block, a key of `METHODS`.
        serial_rows: How many of the parts of m follow one another on a tile.
        serial_columns: The same for n.
        serial_reduction: The same for k.
    """

    batch: int = 1
    rows: int = 1
    columns: int = 1
    reduction: int = 1
    grain: int = 16
    partials: str = "float32"
    method: str = "amp_1x1_swapped"
    serial_rows: int = 1
    serial_columns: int = 1
    serial_reduction: int = 1


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
        method: The vertices that compute a block, a key of `METHODS`.
        serial_batch: How many of the batch's parts follow one another on a tile.
        serial_out_channels: The same for output channels.
        serial_in_channels: The same for input channels.
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
    method: str = "amp_nx1"
    serial_batch: int = 1
    serial_out_channels: int = 1
    serial_in_channels: int = 1


Plan: TypeAlias = MatMulPlan | ConvPlan


def partial_dtype(dtype: str, partials: str) -> str:
    """Returns the actual type of partials: float32 inputs always have float32 partials.

    Raises:
        ValueError: `partials` is neither "float32" nor "float16".
    """
    if partials not in PARTIAL_DTYPES:
        raise ValueError(f"`partials` must be 'float32' or 'float16'. Received: {partials!r}.")
    return "float32" if dtype == "float32" else partials


def largest_block(shape: OpShape, splits: Block, grain: int) -> Block:
    """Returns the part size of every extent on the busiest tile.

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


def cut_grain(name: str, shape: OpShape, plan: Plan) -> int:
    """Returns how many elements of an extent stay together where a plan cuts it.

    They are those of an AMP pass: summed ones, and the features that it computes side by side; the
    last group may be smaller. poplibs fills it up (Convolution.cpp, convolutionPreprocess and
    getPartialOutputShape). A plan of more parts than there are such groups cuts smaller ones.
    """
    return int(cut_grains(name, shape, plan.method, plan.grain, plan.splits[name]))


def cut_grains(name: str, shape: OpShape, method: str, grain: int, parts: Count) -> Count:
    """Returns the same for so many parts: an integer, or an array with one entry per plan."""
    if name == shape.grained_split:
        return grain
    features = "rows" if METHODS[method].swapped else shape.column_split
    if name != features or not method.startswith(_AMP):
        return 1
    extent = shape.extents[name]
    group: Count = min(FEATURE_GROUP, extent)
    for _ in range(FEATURE_GROUP.bit_length() - 1):
        group = np.where(ceil_div(extent, group) < parts, group // 2, group)
    return group


PLAN_TYPES: Mapping[Family, type[Plan]] = {"matmul": MatMulPlan, "conv": ConvPlan}
"""The type of the plans of each family of ops."""


def check_parts(plan: Plan, shape: OpShape) -> None:
    """Checks that a plan is of the op's kind and splits no extent into more parts than elements.

    Raises:
        ValueError: The plan is of another kind, or splits an extent too often.
    """
    if plan.splits.keys() != shape.extents.keys():
        raise ValueError(
            f"A {type(plan).__name__} does not describe a {shape.op}: it takes a "
            f"{PLAN_TYPES[shape.family].__name__}. Received: {plan!r}."
        )
    for name, extent in shape.extents.items():
        parts = plan.splits[name]
        grain = plan.grain if name == shape.grained_split else 1
        units = ceil_div(extent, grain)
        if parts > units:
            grains = f" (grain {grain})" if grain > 1 else ""
            raise ValueError(
                f"{shape.op}: the plan splits {name} of {extent} elements{grains} into {parts} "
                f"parts, at most {units} are possible. Received: {written(plan)}."
            )
    _check_steps(plan, shape)


def _check_steps(plan: Plan, shape: OpShape) -> None:
    """Checks that the order of the steps is an order in which partials can be added up."""
    step_splits = [name for name in shape.reduction_splits if plan.serial.get(name, 1) > 1]
    for name in step_splits:
        before = shape.reduction_splits[: shape.reduction_splits.index(name)]
        split = [earlier for earlier in before if plan.splits[earlier] > 1]
        if split:
            raise ValueError(
                f"{shape.op}: the plan sums over {name} in steps and splits {split[0]}, whose "
                "partials are added first. Split one or the other. "
                f"Received: {written(plan)}."
            )


def written(plan: Plan) -> str:
    """Returns the plan with only the splits that split, for messages."""
    splits = [f"{name}={parts}" for name, parts in plan.splits.items() if parts > 1]
    steps = [f"{_SERIAL}{name}={steps}" for name, steps in plan.serial.items() if steps > 1]
    return f"{type(plan).__name__}({', '.join([*splits, *steps, f'grain={plan.grain}'])})"
