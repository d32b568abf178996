"""Slices of static size at positions that depend on data: `x[i : i + 8]`.

TensorFlow takes the size of such a slice as unknown. On the machine it must be known, and it is:
the ends differ by a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """A whole number as a constant plus multiples of tensors.

    Attributes:
        factors: The factor of each tensor, by the tensor's id.
        constant: The constant.
    """

    factors: Mapping[int, int] = field(default_factory=dict)
    constant: int = 0

    def plus(self, other: _Position, times: int = 1) -> _Position:
        """Returns the sum of this position and a multiple of another."""
        sums = {
            key: self.factors.get(key, 0) + times * other.factors.get(key, 0)
            for key in {**self.factors, **other.factors}
        }
        return _Position(
            factors={key: factor for key, factor in sums.items() if factor},
            constant=self.constant + times * other.constant,
        )


def with_static_sizes(
    inputs: Sequence[tf.Tensor], attrs: Mapping[str, tf.compat.v1.AttrValue]
) -> tuple[Sequence[tf.Tensor], dict[str, tf.compat.v1.AttrValue]]:
    """Returns inputs and attributes of a StridedSlice without moving ranges of static size.

    A Slice before it, which has these sizes, takes these ranges. So an end beyond the tensor is an
    error when the program runs, not a smaller result.

    Args:
        inputs: Inputs of the StridedSlice.
        attrs: Its attributes.
    """
    unchanged = inputs, dict(attrs)
    tensor, *bounds = inputs
    begin, end = (_elements(bound) for bound in bounds[:2])
    strides = tf.get_static_value(bounds[2])
    if begin is None or end is None or strides is None or not tensor.shape.is_fully_defined():
        return unchanged
    starts: list[int | tf.Tensor] = [0] * len(tensor.shape)
    sizes = tensor.shape.as_list()
    ranges = 0
    for index, axis in _plain_ranges(attrs, len(begin), len(sizes)):
        size = _moving_size(begin[index], end[index]) if strides[index] == 1 else 0
        if 0 < size <= sizes[axis]:
            starts[axis], sizes[axis] = begin[index], size
            ranges |= 1 << index
    if not ranges:
        return unchanged
    dtype = bounds[0].dtype
    place = tf.stack([tf.convert_to_tensor(start, dtype) for start in starts])
    sliced = tf.slice(tensor, place, tf.constant(sizes, dtype))
    masks = {
        key: tf.compat.v1.AttrValue(i=attrs[key].i | ranges) for key in ("begin_mask", "end_mask")
    }
    return [sliced, *bounds], {**attrs, **masks}


def _plain_ranges(attrs: Mapping[str, Any], count: int, rank: int) -> Iterator[tuple[int, int]]:
    """Yields the index and the axis of each subscript that is a range with both ends.

    Args:
        attrs: Attributes of a StridedSlice.
        count: Number of its subscripts.
        rank: Rank of the sliced tensor.
    """

    def is_set(key: str, index: int) -> bool:
        return bool(attrs[key].i >> index & 1)

    new_axes = sum(is_set("new_axis_mask", index) for index in range(count))
    axis = 0
    for index in range(count):
        if is_set("ellipsis_mask", index):
            axis += rank - (count - 1 - new_axes)
        elif not is_set("new_axis_mask", index):
            masks = ("shrink_axis_mask", "begin_mask", "end_mask")
            if not any(is_set(key, index) for key in masks):
                yield index, axis
            axis += 1


def _moving_size(begin: int | tf.Tensor, end: int | tf.Tensor) -> int:
    """Returns the size of a range whose ends depend on data, 0 if it is not static."""
    first, last = _position(begin), _position(end)
    size = last.plus(first, -1)
    return size.constant if first.factors and not size.factors else 0


def _elements(vector: tf.Tensor) -> list[int | tf.Tensor] | None:
    """Returns the elements of a vector, None if its ops do not show them."""
    value = tf.get_static_value(vector)
    if value is not None:
        return [int(element) for element in value]
    return list(vector.op.inputs) if vector.op.type == "Pack" else None


def _position(scalar: int | tf.Tensor) -> _Position:
    """Returns a scalar as a sum, as far as its ops show it."""
    if isinstance(scalar, int):
        return _Position(constant=scalar)
    value = tf.get_static_value(scalar)
    if value is not None:
        return _Position(constant=int(value))
    op = scalar.op
    if op.type == "Identity":
        return _position(op.inputs[0])
    if op.type not in ("Add", "AddV2", "Sub", "Mul"):
        return _Position(factors={id(scalar): 1})
    left, right = (_position(operand) for operand in op.inputs)
    if op.type == "Sub":
        return left.plus(right, -1)
    if op.type != "Mul":
        return left.plus(right)
    if left.factors and right.factors:
        return _Position(factors={id(scalar): 1})
    position, factor = (left, right.constant) if left.factors else (right, left.constant)
    return _Position().plus(position, factor)
