"""Creates a tile op, eagerly or in a graph: shapes, plan, attributes, then the op."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

import tensorflow as tf

from ipu_tf import config
from ipu_tf.ops.kernels import library
from ipu_tf.ops.kernels.numerics import TileNumerics, numerics_for
from ipu_tf.ops.kernels.op_shapes import OpInputs, TileOpAttributes
from ipu_tf.ops.kernels.twins import TWINS, plan_for, tile_attributes
from ipu_tf.planner.plan import OpShape, Plan

_EAGER_STREAM = 0
_LIST_OF_INPUTS = frozenset({"Einsum"})
"""Stock ops whose inputs are one list."""


def tile_op(
    stock: str,
    inputs: Sequence[tf.Tensor],
    attributes: Mapping[str, object],
    *,
    sizes: Sequence[int] | None = None,
    plan: Plan | None = None,
    numerics: TileNumerics | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Runs the tile twin of a stock op.

    Args:
        stock: Type of the stock op.
        inputs: Its inputs; all of one dtype, except the sizes of a gradient op.
        attributes: Its attributes other than types, with Python values.
        sizes: Values of the sizes input of a convolution gradient.
        plan: The plan of the op; None asks the planner.
        numerics: Partials and rounding; None takes them from the configuration and the scopes.
        name: Name of the op in a graph.

    Raises:
        ValueError: Shapes do not fit each other, dtypes differ, or the plan is invalid.
    """
    twin = TWINS[stock]
    numerics = numerics or numerics_for(twin.family, config.device_configuration())
    shape = shape_of(stock, inputs, attributes, sizes=sizes, name=name)
    own_plan = plan_for(shape, numerics, plan, name or stock)
    function = getattr(library.load(), _snake_case(twin.tile_op))
    own = tile_attributes(own_plan, numerics, _EAGER_STREAM)
    operands = [list(inputs)] if stock in _LIST_OF_INPUTS else inputs
    return function(*operands, **attributes, **own, name=name or stock)


def shape_of(
    stock: str,
    inputs: Sequence[tf.Tensor | tf.TensorSpec],
    attributes: Mapping[str, object],
    *,
    sizes: Sequence[int] | None = None,
    name: str | None = None,
) -> OpShape:
    """Returns the shape that the op's plan splits; inputs may be tensors or TensorSpecs."""
    twin = TWINS[stock]
    op = name or stock
    values = [value for index, value in enumerate(inputs) if index != twin.sizes_input]
    dtypes = {value.dtype for value in values}
    if len(dtypes) > 1 or not dtypes <= {tf.float32, tf.float16}:
        names = ", ".join(value.dtype.name for value in values)
        raise ValueError(
            f"'{op}' takes inputs that are all float32 or all float16. Received: {names}."
        )
    for value in values:
        if not value.shape.is_fully_defined():
            raise ValueError(f"'{op}' needs static shapes. Received: {value.shape}.")
    return twin.shape(
        OpInputs(
            op=op,
            attributes=cast("TileOpAttributes", attributes),
            shapes=[[] if v is None else v.shape.as_list() for v in inputs],
            sizes=None if sizes is None else list(sizes),
            dtype=values[0].dtype.name,
        )
    )


def _snake_case(op_type: str) -> str:
    """Returns the name that TensorFlow gives the generated function of an op."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op_type).lower()
