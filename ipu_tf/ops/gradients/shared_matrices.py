"""Gradients of batched matmuls in which factors share a matrix: one product, not one a factor.

TensorFlow multiplies factor by factor and then adds up the products of a shared matrix. On the
machine the factors are further elements of the sum that the product forms anyway, as in the
gradient of the einsum "abc,cde->abde" of an attention's projections.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Sequence

import tensorflow as tf

Einsum = Callable[[str, tf.Tensor, tf.Tensor], tf.Tensor]
"""Computes an equation of two tensors."""


def gradients(
    x: tf.Tensor, y: tf.Tensor, grad: tf.Tensor, *, adj_x: bool, adj_y: bool, einsum: Einsum
) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns the gradients of both operands; None if no matrix is shared, or a shape is open.

    Args:
        x: `[..., m, k]`, or `[..., k, m]` with `adj_x`.
        y: `[..., k, n]`, or `[..., n, k]` with `adj_y`; leading dimensions broadcast.
        grad: `[..., m, n]`, the gradient of the product.
        adj_x: Whether `x` is given transposed.
        adj_y: Whether `y` is given transposed.
        einsum: Computes the products.
    """
    if not all(tensor.shape.is_fully_defined() for tensor in (x, y, grad)):
        return None
    if len({tensor.dtype for tensor in (x, y, grad)}) > 1:
        return None
    of_grad, of_x, of_y = (_batch_labels(tensor, grad) for tensor in (grad, x, y))
    if of_x == of_y:
        return None
    rows = of_grad + "MN"
    left, right = of_x + ("KM" if adj_x else "MK"), of_y + ("NK" if adj_y else "KN")
    flat_x, flat_y, flat_grad = (_without_ones(tensor) for tensor in (x, y, grad))
    x_gradient = einsum(f"{rows},{right}->{left}", flat_grad, flat_y)
    y_gradient = einsum(f"{left},{rows}->{right}", flat_x, flat_grad)
    return tf.reshape(x_gradient, x.shape), tf.reshape(y_gradient, y.shape)


def _batch_labels(tensor: tf.Tensor, product: tf.Tensor) -> str:
    """Returns a label for every leading dimension of more than one element, as in the product."""
    extents, rank = _leading(tensor), len(_leading(product))
    labels = string.ascii_lowercase[rank - len(extents) : rank]
    return "".join(itertools.compress(labels, (extent > 1 for extent in extents)))


def _without_ones(tensor: tf.Tensor) -> tf.Tensor:
    extents = [extent for extent in _leading(tensor) if extent > 1]
    return tf.reshape(tensor, [*extents, *tensor.shape[-2:]])


def _leading(tensor: tf.Tensor) -> Sequence[int]:
    return tensor.shape.as_list()[:-2]
