"""Matmuls, executed by plan."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ipu_tf.ops.reference.interpreter import Array, PlannedOp, Ranges, Run, Tap, execute
from ipu_tf.ops.reference.rounding import NEAREST, Rounding
from ipu_tf.planner.plan import AMP_GRAINS, MatMulPlan, MatMulShape, check_parts


def matmul(
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    plan: MatMulPlan | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    rounding: Rounding = NEAREST,
) -> NDArray[np.floating]:
    """Returns the product of two matrices, computed by plan.

    Args:
        a: `[m, k]`, or `[k, m]` with `transpose_a`; float32 or float16.
        b: `[k, n]`, or `[n, k]` with `transpose_b`; of the same type.
        plan: How the product is split over tiles; None computes it on one tile.
        transpose_a: Whether `a` is given transposed.
        transpose_b: Whether `b` is given transposed.
        rounding: How float16 is rounded.

    Returns:
        `[m, n]`, of the inputs' type.

    Raises:
        ValueError: The inputs are not two matrices of one type that can be multiplied, or the
            plan splits an extent into too many parts.
    """
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"matmul takes two matrices. Received: {a.shape} and {b.shape}.")
    return batch_matmul(
        a, b, plan, transpose_a=transpose_a, transpose_b=transpose_b, rounding=rounding
    )


def batch_matmul(
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    plan: MatMulPlan | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    rounding: Rounding = NEAREST,
) -> NDArray[np.floating]:
    """Returns the products of two stacks of matrices; the stacks' dimensions broadcast.

    The plan's `batch` splits the product of the broadcast dimensions; but the matrices of `a` are
    rows of one product if `b` is one matrix and `a` is not given transposed. Arguments and errors
    are those of `matmul`.
    """
    is_one_product = math.prod(b.shape[:-2]) == 1 and not transpose_a
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    b = np.swapaxes(b, -1, -2) if transpose_b else b
    if a.dtype != b.dtype or a.dtype not in ("float32", "float16") or a.shape[-1] != b.shape[-2]:
        raise ValueError(
            "A matmul multiplies [.., m, k] by [.., k, n], both float32 or both float16. "
            f"Received: {a.dtype} {a.shape} and {b.dtype} {b.shape}."
        )
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a, stack + a.shape[-2:]).reshape((-1, *a.shape[-2:]))
    right = np.broadcast_to(b, stack + b.shape[-2:]).reshape((-1, *b.shape[-2:]))
    if is_one_product:
        left, right = left.reshape((1, -1, a.shape[-1])), right[:1]
    batch, m, k = left.shape
    shape = MatMulShape(batch=batch, m=m, k=k, n=right.shape[-1], dtype=a.dtype.name)
    if plan is None:
        plan = MatMulPlan(grain=AMP_GRAINS[shape.dtype])
    check_parts(plan, shape)
    op = PlannedOp(
        shape=shape,
        output_splits=("batch", "rows", "columns"),
        runs=_Runs(left.astype(np.float32), right.astype(np.float32)),
    )
    return execute(op, plan, rounding).reshape((*stack, a.shape[-2], shape.n))


class _Runs:
    """The one run of a tile: its part of k."""

    def __init__(self, left: Array, right: Array) -> None:
        self._left = left
        self._right = right

    def __call__(self, ranges: Ranges) -> Iterator[Run]:
        left = self._left[np.ix_(ranges["batch"], ranges["rows"], ranges["reduction"])]
        right = self._right[np.ix_(ranges["batch"], ranges["reduction"], ranges["columns"])]
        yield [
            Tap(left=left[:, :, i, None], right=right[:, i, None, :]) for i in range(left.shape[-1])
        ]
