"""The table of twins: the tile op of each TensorFlow op, and its attributes.

A tile op has the inputs, outputs and attributes of its stock twin plus its own (`plan`, `method`,
`serial`, `partials`, `rounding`, `nanoo`, `stream`), so either can stand in the other's place in
a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from ipu_tf.ops.kernels import op_shapes
from ipu_tf.ops.kernels.numerics import TileNumerics
from ipu_tf.planner.plan import PLAN_TYPES, ConvPass, ConvPlan, MatMulPlan, OpShape, Plan
from ipu_tf.planner.plan_check import check
from ipu_tf.planner.shapes import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A stock op's tile op.

    Attributes:
        tile_op: Registered name.
        family: The family of configuration options that apply.
        shape: Maps the op's inputs to the shape that a plan splits.
        sizes_input: Index of the input that holds sizes (gradients of convolutions), or None.
    """

    tile_op: str
    family: Family
    shape: Callable[[op_shapes.OpInputs], OpShape]
    sizes_input: int | None = None


def _conv_twins(stock: str, *, depthwise: bool) -> dict[str, Twin]:
    passes: tuple[tuple[str, ConvPass, int | None], ...] = (
        ("", "forward", None),
        ("BackpropInput", "input_gradient", 0),
        ("BackpropFilter", "filter_gradient", 1),
    )
    return {
        stock + suffix: Twin(
            tile_op=f"Ipu{stock}{suffix}",
            family="conv",
            shape=op_shapes.conv_shape(pass_, depthwise=depthwise),
            sizes_input=sizes_input,
        )
        for suffix, pass_, sizes_input in passes
    }


def _matmul_twin(stock: str, shape: Callable[[op_shapes.OpInputs], OpShape]) -> dict[str, Twin]:
    return {stock: Twin(tile_op=f"Ipu{stock}", family="matmul", shape=shape)}


TWINS: Mapping[str, Twin] = MappingProxyType(
    {
        **_matmul_twin("MatMul", op_shapes.matmul_shape),
        # Version 1 lacks broadcasting and some attributes; the same tile op serves both.
        **dict.fromkeys(
            ("BatchMatMul", "BatchMatMulV2"),
            Twin(tile_op="IpuBatchMatMul", family="matmul", shape=op_shapes.batch_matmul_shape),
        ),
        **_matmul_twin("BatchMatMulV3", op_shapes.batch_matmul_shape),
        **_matmul_twin("Einsum", op_shapes.einsum_shape),
        **_conv_twins("Conv2D", depthwise=False),
        **_conv_twins("DepthwiseConv2dNative", depthwise=True),
    }
)

STOCK_OF: Mapping[str, str] = MappingProxyType({t.tile_op: stock for stock, t in TWINS.items()})
"""The stock op of every tile op."""


def plan_for(shape: OpShape, numerics: TileNumerics, plan: Plan | None, op: str) -> Plan:
    """Returns the plan of an op: the given one, checked, or the planner's.

    Raises:
        ValueError: The given plan is of the wrong kind, or does not fit the shape or the machine.
        IPUOutOfMemoryError: No plan fits a tile and the configuration says "raise".
    """
    if plan is None:
        return numerics.planned(shape, op)
    plan_type = MatMulPlan if shape.op == "matmul" else ConvPlan
    if not isinstance(plan, plan_type):
        raise ValueError(
            f"'{op}' takes a {plan_type.__name__} as its plan. Received: {type(plan).__name__}."
        )
    check(
        plan,
        shape,
        numerics.target,
        available_memory_proportion=numerics.available_memory_proportion,
    )
    return plan


def tile_attributes(
    plan: Plan, numerics: TileNumerics, stream: int
) -> dict[str, bool | int | str | list[int]]:
    """Returns a tile op's own attributes as Python values."""
    return {
        "plan": plan.to_list(),
        "method": plan.method,
        "serial": list(plan.serial.values()),
        "partials": plan.partials,
        "rounding": "stochastic" if numerics.stochastic_rounding else "nearest",
        "nanoo": numerics.nanoo,
        "stream": stream,
    }


def plan_from_attributes(stock: str, own: Mapping[str, object]) -> Plan:
    """Returns the plan that a tile op's own attributes describe.

    Args:
        stock: Type of the stock op.
        own: The attributes `plan`, `method`, `serial` and `partials`, as Python values.
    """
    kind = PLAN_TYPES[TWINS[stock].family]
    *splits, grain = cast("Sequence[int]", own["plan"])
    serial = (f"serial_{name}" for name in kind.serial_names())
    return kind(
        **dict(zip(kind.split_names(), splits, strict=True)),
        **dict(zip(serial, cast("Sequence[int]", own["serial"]), strict=True)),
        grain=grain,
        partials=cast("str", own["partials"]),
        method=cast("str", own["method"]),
    )
