"""Matrix products that the device computes piece by piece."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

# The extent that each dimension splits, in a product [..., m, k] x [..., k, n].
_SPLIT_EXTENT = {"a_columns": "m", "a_rows_b_columns": "k", "b_rows": "n"}


@tf.autograph.experimental.do_not_convert
def serialized_matmul(
    a: tf.Tensor,
    b: tf.Tensor,
    serialization_factor: int,
    serialization_dimension: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the product of two matrices, computed in equal pieces.

    For `a` of shape [..., m, k] and `b` of shape [..., k, n], after transposition, "a_columns"
    splits m, "a_rows_b_columns" k and "b_rows" n. The pieces are separate products, and so are
    those of the gradients; along k, their results are added, which rounds float16 once a piece.

    Args:
        a: A tensor of rank 2 or more.
        b: A tensor of the same dtype, of rank 2 or more.
        serialization_factor: Number of pieces; must divide the extent that is split.
        serialization_dimension: "a_columns", "a_rows_b_columns" or "b_rows".
        transpose_a: Whether `a` has shape [..., k, m].
        transpose_b: Whether `b` has shape [..., n, k].
        name: Name scope of the pieces.

    Returns:
        A tensor of shape [..., m, n].

    Raises:
        ValueError: The factor is below 1 or does not divide the extent, the dimension is unknown,
            the extent is not static, or a tensor has a rank below 2.
    """
    a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
    check_serialization("serialized_matmul", serialization_factor, serialization_dimension)
    for label, tensor in (("a", a), ("b", b)):
        if tensor.shape.rank is None or tensor.shape.rank < 2:
            raise ValueError(
                f"serialized_matmul: tensor '{label}' must have a rank of at least 2. "
                f"Received: shape {tensor.shape}."
            )
    extent = _SPLIT_EXTENT[serialization_dimension]
    axes_a = dict(zip("km" if transpose_a else "mk", (-2, -1), strict=True))
    axes_b = dict(zip("nk" if transpose_b else "kn", (-2, -1), strict=True))
    with tf.name_scope(name or "serialized_matmul"):
        pieces = zip(
            _pieces(a, axes_a.get(extent), serialization_factor, serialization_dimension),
            _pieces(b, axes_b.get(extent), serialization_factor, serialization_dimension),
            strict=True,
        )
        products = [tf.matmul(x, y, transpose_a, transpose_b) for x, y in pieces]
        if extent == "k":
            return tf.add_n(products)
        return tf.concat(products, axis={"m": -2, "n": -1}[extent])


def segment_sum(
    data: tf.Tensor, segment_ids: tf.Tensor, num_segments: int, name: str | None = None
) -> tf.Tensor:
    """Returns the sum of the rows of each segment.

    Args:
        data: A tensor of shape [rows, ...].
        segment_ids: The segment of each row, int32 of shape [rows], in ascending order.
        num_segments: Number of segments.
        name: Name of the operation.

    Returns:
        A tensor of shape [num_segments, ...]; 0 for segments without rows.
    """
    return tf.math.unsorted_segment_sum(data, segment_ids, num_segments, name=name)


def check_serialization(
    owner: str, factor: object, dimension: str, dimensions: Sequence[str] = tuple(_SPLIT_EXTENT)
) -> None:
    """Checks the serialization of a product.

    Args:
        owner: Name for the error.
        factor: Number of pieces.
        dimension: Name of the dimension that is split.
        dimensions: The supported names.

    Raises:
        ValueError: The factor is not a whole number from 1, or the dimension is unknown.
    """
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ValueError(
            f"{owner}: serialization_factor must be a whole number of at least 1. "
            f"Received: serialization_factor={factor!r}."
        )
    if dimension not in dimensions:
        raise ValueError(
            f"{owner}: invalid serialization_dimension={dimension!r}, expected one of: "
            f"{', '.join(dimensions)}."
        )


def _pieces(tensor: tf.Tensor, axis: int | None, factor: int, dimension: str) -> list[tf.Tensor]:
    """Returns equal pieces of a tensor, or the tensor `factor` times if no axis is split."""
    if axis is None:
        return [tensor] * factor
    length = tensor.shape[axis]
    if length is None or length % factor:
        raise ValueError(
            f"serialized_matmul: serialization_factor ({factor}) must divide the static extent "
            f"that '{dimension}' splits. Received: extent {length}, axis {axis} of shape "
            f"{tensor.shape}."
        )
    return tf.split(tensor, factor, axis=axis)
