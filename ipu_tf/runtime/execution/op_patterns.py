"""Patterns of ops: nested tuples of op types, names for tensors, and constants."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf

Pattern = str | float | tuple
"""A name that stands for a tensor, the value of a scalar constant, or an op: its type and patterns
of its inputs. `("columns", i, n, pattern)` is part `i` of `n` equal parts of the last dimension,
`("rows", i, n, pattern)` that of the first, `("row", i, n, pattern)` one of `n` rows without that
dimension."""

Bindings = Mapping[str, tf.Tensor]
"""The tensors that names stand for."""

_TYPES: Mapping[str, Sequence[str]] = MappingProxyType({"Bias": ("BiasAdd", "AddV2")})
_COMMUTE = frozenset({"AddN", "AddV2", "LogicalAnd", "Mul"})


def find(tensor: tf.Tensor, pattern: Pattern, bindings: Bindings) -> Bindings | None:
    """Returns the tensors of a pattern's names, None if `tensor` does not have this form.

    Args:
        tensor: The result of the outermost op; identities are passed over.
        pattern: The pattern.
        bindings: Tensors of names that are known.
    """
    tensor = without_identities(tensor)
    if isinstance(pattern, str):
        bound_tensor = bindings.get(pattern)
        if bound_tensor is None:
            return {**bindings, pattern: tensor}
        return bindings if bound_tensor is tensor else None
    if not isinstance(pattern, tuple):
        value = tf.get_static_value(tensor) if tensor.shape.rank == 0 else None
        return bindings if value is not None and value == pattern else None
    op_type, *operands = pattern
    if op_type == "row":
        return _match_row(tensor, pattern, bindings)
    if op_type in {"columns", "rows"}:
        return _match_part(tensor, pattern, bindings)
    if tensor.op.type not in _TYPES.get(op_type, (op_type,)):
        return None
    if op_type == "AddN" and len(tensor.op.inputs) != len(operands):
        return None
    inputs = list(tensor.op.inputs)[: len(operands)]
    for order in itertools.permutations(inputs) if op_type in _COMMUTE else [inputs]:
        match: Bindings | None = bindings
        for value, operand in zip(order, operands, strict=True):
            match = None if match is None else find(value, operand, match)
        if match is not None:
            return match
    return None


def without_identities(tensor: tf.Tensor) -> tf.Tensor:
    """Returns what identities hand on."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _match_row(tensor: tf.Tensor, pattern: tuple, bindings: Bindings) -> Bindings | None:
    _, index, count, source_pattern = pattern
    op = tensor.op
    if op.type == "Squeeze":
        return find(op.inputs[0], ("rows", index, count, source_pattern), bindings)
    if op.type != "Unpack" or op.get_attr("axis") != 0 or len(op.outputs) != count:
        return None
    return find(op.inputs[0], source_pattern, bindings) if tensor.value_index == index else None


def scalar_constant(tensor: tf.Tensor) -> float | None:
    """Returns the value of a constant with one element, None for others."""
    if tensor.op.type != "Const" or tensor.shape.num_elements() != 1:
        return None
    return float(tf.get_static_value(tensor).reshape(()))


def is_filled(tensor: tf.Tensor, value: int) -> bool:
    """Returns whether all elements of a tensor are a value, 0 or 1."""
    op = tensor.op
    if op.type == "Fill":
        return bool(tf.get_static_value(op.inputs[1]) == value)
    if op.type == "Const":
        return bool((tf.get_static_value(tensor) == value).all())
    return bool(op.type == ("OnesLike" if value else "ZerosLike"))


def _match_part(tensor: tf.Tensor, pattern: tuple, bindings: Bindings) -> Bindings | None:
    dimension, index, count, source_pattern = pattern
    axis = -1 if dimension == "columns" else 0
    if tensor.op.type == "Split":
        source, at = tensor.op.inputs[1], tensor.value_index
    elif tensor.op.type == "SplitV" and len({str(part.shape) for part in tensor.op.outputs}) == 1:
        source, at = tensor.op.inputs[0], tensor.value_index
    elif tensor.op.type == "StridedSlice":
        source = tensor.op.inputs[0]
        at = _first_column(tensor) // max(1, tensor.shape[-1] or 1)
    else:
        return None
    shape = source.shape.as_list() if source.shape.rank is not None else [None]
    if None in shape or shape[axis] % count:
        return None
    shape[axis] //= count
    return find(source, source_pattern, bindings) if tensor.shape == shape and at == index else None


def _first_column(tensor: tf.Tensor) -> int:
    """Returns where a slice of whole rows starts, -1 for other slices."""
    op = tensor.op
    masks = [op.get_attr(name) for name in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")]
    begin, strides = (tf.get_static_value(op.inputs[index]) for index in (1, 3))
    rank = tensor.shape.rank
    plain = not any(masks) and begin is not None and strides is not None
    if not plain or len(begin) != rank or any(step != 1 for step in strides):
        return -1
    return 0 if op.get_attr("begin_mask") & 1 << (rank - 1) else int(begin[-1])
