"""Copies of runs of rows between tensors."""

from __future__ import annotations

import tensorflow as tf


@tf.autograph.experimental.do_not_convert
def sequence_slice(
    dst: tf.Tensor,
    src: tf.Tensor,
    num_elems: tf.Tensor,
    src_offsets: tf.Tensor,
    dst_offsets: tf.Tensor,
    zero_unused: bool,
) -> tf.Tensor:
    """Returns `dst` with runs of rows of `src` copied into it.

    Run i copies the rows from `src_offsets[i]` on to the rows from `dst_offsets[i]` on. Where runs
    overlap, the last one counts; rows beyond the end of `dst` are dropped.

    Args:
        dst: A tensor of shape [rows, ...].
        src: A tensor of the same dtype, and of the same shape but for the number of its rows.
        num_elems: Number of rows of each run, int32 of shape [runs].
        src_offsets: First row of each run in `src`, int32 of shape [runs].
        dst_offsets: First row of each run in `dst`, int32 of shape [runs].
        zero_unused: Whether rows that no run writes become 0; otherwise they keep their values.

    Returns:
        A tensor of the shape of `dst`.

    Raises:
        ValueError: The shapes beyond the rows differ or are not static, or the three lists do not
            have one length.
    """
    dst, src = tf.convert_to_tensor(dst), tf.convert_to_tensor(src)
    runs = [tf.cast(values, tf.int32) for values in (num_elems, src_offsets, dst_offsets)]
    _check_rows("sequence_slice", dst, src)
    _check_runs("sequence_slice", runs)
    return _copy_runs(dst, src, *runs, zero_unused=zero_unused)


@tf.autograph.experimental.do_not_convert
def sequence_slice_unpack(
    src: tf.Tensor, num_elems: tf.Tensor, src_offsets: tf.Tensor, total_elements: int
) -> tf.Tensor:
    """Returns runs of rows of `src` one after the other, and zeros up to `total_elements` rows.

    Args:
        src: A tensor of shape [rows, ...].
        num_elems: Number of rows of each run, int32 of shape [runs].
        src_offsets: First row of each run in `src`, int32 of shape [runs].
        total_elements: Number of rows of the result.

    Raises:
        ValueError: The shape of `src` is not static, or the lists do not have one length.
    """
    src = tf.convert_to_tensor(src)
    count, offsets = (tf.cast(values, tf.int32) for values in (num_elems, src_offsets))
    _check_runs("sequence_slice_unpack", [count, offsets])
    dst = tf.zeros((total_elements, *src.shape[1:]), src.dtype)
    _check_rows("sequence_slice_unpack", dst, src)
    return _copy_runs(dst, src, count, offsets, _ends_before(count), zero_unused=True)


@tf.autograph.experimental.do_not_convert
def sequence_slice_pack(
    dst: tf.Tensor, src: tf.Tensor, num_elems: tf.Tensor, dst_offsets: tf.Tensor, zero_unused: bool
) -> tf.Tensor:
    """Returns `dst` with runs of rows that lie one after the other in `src` copied into it.

    Args:
        dst: A tensor of shape [rows, ...].
        src: A tensor of the same dtype, and of the same shape but for the number of its rows.
        num_elems: Number of rows of each run, int32 of shape [runs].
        dst_offsets: First row of each run in `dst`, int32 of shape [runs].
        zero_unused: Whether rows that no run writes become 0; otherwise they keep their values.

    Raises:
        ValueError: The shapes beyond the rows differ or are not static, or the lists do not have
            one length.
    """
    dst, src = tf.convert_to_tensor(dst), tf.convert_to_tensor(src)
    count, offsets = (tf.cast(values, tf.int32) for values in (num_elems, dst_offsets))
    _check_rows("sequence_slice_pack", dst, src)
    _check_runs("sequence_slice_pack", [count, offsets])
    return _copy_runs(dst, src, count, _ends_before(count), offsets, zero_unused=zero_unused)


def _ends_before(count: tf.Tensor) -> tf.Tensor:
    return tf.cumsum(count, exclusive=True)


def _copy_runs(
    dst: tf.Tensor,
    src: tf.Tensor,
    count: tf.Tensor,
    src_offsets: tf.Tensor,
    dst_offsets: tf.Tensor,
    *,
    zero_unused: bool,
) -> tf.Tensor:
    rows = tf.range(dst.shape[0])
    within = rows[None, :] - dst_offsets[:, None]
    is_written = (within >= 0) & (within < count[:, None])
    # The last run that writes a row.
    numbers = tf.range(1, count.shape[0] + 1)[:, None]
    writer = tf.reduce_max(tf.where(is_written, numbers, 0), axis=0)
    run = tf.maximum(writer - 1, 0)
    source = tf.gather(src_offsets, run) + rows - tf.gather(dst_offsets, run)
    source_rows = tf.gather(src, tf.clip_by_value(source, 0, src.shape[0] - 1))
    background = tf.zeros_like(dst) if zero_unused else dst
    mask = tf.reshape(writer > 0, (-1, *(1,) * (dst.shape.rank - 1)))
    return tf.where(mask, source_rows, background)


def _check_rows(op: str, dst: tf.Tensor, src: tf.Tensor) -> None:
    is_static = dst.shape.is_fully_defined() and src.shape.is_fully_defined()
    if not is_static or not dst.shape.rank or dst.shape[1:] != src.shape[1:]:
        raise ValueError(
            f"{op}: `dst` and `src` must have static shapes that are the same beyond the rows. "
            f"Received: {dst.shape} and {src.shape}."
        )


def _check_runs(op: str, lists: list[tf.Tensor]) -> None:
    shapes = [values.shape for values in lists]
    if any(shape.rank != 1 or shape != shapes[0] or not shape[0] for shape in shapes):
        raise ValueError(
            f"{op}: the numbers and offsets of runs must be lists of one length. "
            f"Received: shapes {', '.join(map(str, shapes))}."
        )
