"""Finds values of float16 operations that are 0 although they should not be.

Computes an operation once more from the operands that it read, in the widest type that it has, and
compares. Does not know operations with a state, such as random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipu_tf.internals.tensorflow import NodeDef, op_def_registry
from ipu_tf.programs.op_names import is_gradient
from ipu_tf.runtime.execution.repeated_effects import TAKE
from ipu_tf.runtime.extraction.function_nodes import become_stock

_SMALLEST = 2.0**-24
"""The smallest positive float16, a subnormal one."""

_LARGEST = 65504.0
_HALF = tf.float16.as_datatype_enum
_WIDE = tuple(dtype.as_datatype_enum for dtype in (tf.float64, tf.float32))


@dataclass(frozen=True, slots=True, kw_only=True)
class LostValues:
    """Values of a result that are 0 although they should not be.

    Attributes:
        count: Their number.
        flat: The place of the first, in row-major order.
        exact: What all values of the result should be, float64.
        smallest: The smallest size of what they should be.
        largest: The largest.
    """

    count: int
    flat: int
    exact: NDArray[np.float64]
    smallest: float
    largest: float

    def factor(self, largest_gradient: float) -> float:
        """Returns by how much the loss scale would have to grow to keep as many as it can.

        A power of two with which no gradient overflows; the smallest that keeps all of them, if
        there is one.

        Args:
            largest_gradient: The largest size of a float16 gradient of the run.
        """
        least_factor = 2.0 ** np.ceil(np.log2(_SMALLEST / self.smallest))
        room = 2.0 ** np.floor(np.log2(_LARGEST / max(largest_gradient, _SMALLEST)))
        return float(max(1.0, min(least_factor, room)))

    def kept_count(self, factor: float) -> int:
        """Returns how many of them a larger loss scale would have kept."""
        sizes = np.abs(self.exact) * factor
        return self.count - int(((sizes > 0) & (sizes < _SMALLEST)).sum())


def can_lose(node: NodeDef) -> bool:
    """Returns whether a node of a FunctionDef is a gradient whose values may become 0."""
    if not is_gradient(node.name) or node.op == TAKE:
        return False
    if op_def_registry.get(node.op).is_stateful and not node.op.startswith("Ipu"):
        return False
    return _HALF in _types(node)


def lost(node: NodeDef, inputs: Sequence[np.ndarray], result: np.ndarray) -> LostValues | None:
    """Returns the values that a float16 operation lost; None if it lost none, or is not known.

    Args:
        node: Its NodeDef.
        inputs: Everything that it read.
        result: Its first result, float16.
    """
    if result.dtype != np.float16 or result.all():
        return None
    exact = _exact(node, inputs)
    if exact is None or exact.shape != result.shape:
        return None
    is_lost = (result == 0) & (exact != 0) & np.isfinite(exact)
    if not is_lost.any():
        return None
    sizes = np.abs(exact[is_lost])
    return LostValues(
        count=int(is_lost.sum()),
        flat=int(np.argmax(is_lost.ravel())),
        exact=exact,
        smallest=float(sizes.min()),
        largest=float(sizes.max()),
    )


def _exact(node: Any, inputs: Sequence[NDArray[Any]]) -> NDArray[np.float64] | None:
    """Returns the first result of an operation in a wider type; None where it has none."""
    stock = NodeDef()
    stock.CopyFrom(node)
    become_stock(stock)
    for wide in _WIDE:
        try:
            return _exact_values(stock, inputs, wide)
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError, TypeError, ValueError):
            continue  # It has no kernel of this type.
    return None


def _exact_values(node: Any, inputs: Sequence[NDArray[Any]], wide: int) -> NDArray[np.float64]:
    numpy_type = tf.as_dtype(wide).as_numpy_dtype
    attrs = {
        name: _wide_attribute(value, wide) for name, value in node.attr.items() if name[0] != "_"
    }
    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        wide_inputs = [
            tf.constant(value.astype(numpy_type) if value.dtype == np.float16 else value)
            for value in inputs
        ]
        op = graph.create_op(node.op, wide_inputs, attrs=attrs, name="exact")
        with tf.compat.v1.Session(graph=graph) as session:
            return np.asarray(session.run(op.outputs[0]), np.float64)


def _wide_attribute(value: Any, wide: int) -> Any:
    """Returns an attribute with a wider type in place of float16."""
    attribute = tf.compat.v1.AttrValue()
    attribute.CopyFrom(value)
    if attribute.type == _HALF:
        attribute.type = wide
    for place, dtype in enumerate(attribute.list.type):
        attribute.list.type[place] = wide if dtype == _HALF else dtype
    return attribute


def _types(node: Any) -> list[int]:
    return [int(value.type) for value in node.attr.values()]
