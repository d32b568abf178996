"""`matmul` and `batch_matmul`: like `tf.linalg.matmul`, tile by tile."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.ops.kernels.apply import tile_op
from ipu_tf.planner.plan import MatMulPlan


@tf.autograph.experimental.do_not_convert
def matmul(
    a: tf.Tensor,
    b: tf.Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
    *,
    plan: MatMulPlan | None = None,
) -> tf.Tensor:
    """Returns the product of two matrices, computed by a plan.

    Args:
        a: float32 or float16 of shape [m, k] ([k, m] with `transpose_a`); more dimensions make
            it a `batch_matmul`.
        b: Same dtype, shape [k, n] ([n, k] with `transpose_b`).
        transpose_a: Whether `a` is transposed first.
        transpose_b: Whether `b` is transposed first.
        name: Name of the op.
        plan: How the product is split over tiles; None asks the planner.

    Returns:
        Same dtype, shape [m, n].

    Raises:
        ValueError: Shapes do not fit, dtypes differ, or the plan does not fit.
    """
    a, b = _tensors(a, b)
    if len(a.shape) > 2 or len(b.shape) > 2:
        return batch_matmul(a, b, transpose_a, transpose_b, name, plan=plan)
    attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return tile_op("MatMul", [a, b], attributes, plan=plan, name=name)


@tf.autograph.experimental.do_not_convert
def batch_matmul(
    x: tf.Tensor,
    y: tf.Tensor,
    adj_x: bool = False,
    adj_y: bool = False,
    name: str | None = None,
    *,
    plan: MatMulPlan | None = None,
) -> tf.Tensor:
    """Returns the products of two batches of matrices; batch dimensions broadcast.

    Args:
        x: float32 or float16 of shape [..., m, k] ([..., k, m] with `adj_x`).
        y: Same dtype, shape [..., k, n] ([..., n, k] with `adj_y`).
        adj_x: Whether the matrices of `x` are transposed first.
        adj_y: Whether the matrices of `y` are transposed first.
        name: Name of the op.
        plan: How the products are split over tiles; None asks the planner.

    Returns:
        Same dtype, shape [..., m, n].

    Raises:
        ValueError: Shapes do not fit, dtypes differ, or the plan does not fit.
    """
    x, y = _tensors(x, y)
    attributes = {"adj_x": adj_x, "adj_y": adj_y}
    return tile_op("BatchMatMulV2", [x, y], attributes, plan=plan, name=name)


def _tensors(a: Any, b: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns both operands as tensors; a Python value gets the dtype of the other."""
    if tf.is_tensor(b) and not tf.is_tensor(a):
        return tf.convert_to_tensor(a, dtype_hint=b.dtype), b
    a = tf.convert_to_tensor(a)
    return a, tf.convert_to_tensor(b, dtype_hint=a.dtype)
