"""Fuses Gaussian error linear units, forward and backward.

TensorFlow computes a unit by some six element-wise ops, and its gradient by twice as many, each of
which reads and writes a tensor. Fused, both are one pass. Units are written in many ways, so they
are known by their values: an element-wise function of one tensor that is the unit at some points is
the unit. Where anything else reads what happens between, it stays as it is.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipu_tf.runtime.execution.fusion_graph import FusionGraph

CURVES = ("Erf", "Erfc", "Tanh")
"""Types of the ops that a unit has one of."""

_Points = NDArray[np.float64]
_POINTS: _Points = np.linspace(-5.0, 5.0, 21)
_TOLERANCE = 1e-5
"""Constants are rounded to float32. The two kinds of units differ by 5e-4."""

_MOST_STEPS = 24
"""Ops between x and its unit, or the unit's gradient, one after the other, at most."""

_MOST_SOURCES = 8
"""Tensors that x is looked for among."""

_erf: Callable[[_Points], _Points] = np.vectorize(math.erf)

_FUNCTIONS: Mapping[str, Callable[..., _Points]] = MappingProxyType(
    {
        "AddN": lambda *terms: sum(terms),
        "AddV2": np.add,
        "Erf": _erf,
        "Erfc": lambda x: 1 - _erf(x),
        "Exp": np.exp,
        "Identity": np.positive,
        "Mul": np.multiply,
        "Neg": np.negative,
        "Pow": np.power,
        "RealDiv": np.divide,
        "Sqrt": np.sqrt,
        "Square": np.square,
        "Sub": np.subtract,
        "Tanh": np.tanh,
        "TanhGrad": lambda y, dy: dy * (1 - y * y),
    }
)

_LINEAR, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _unit(x: _Points, approximate: bool) -> _Points:
    curve = np.tanh(_LINEAR * (x + _CUBIC * x**3)) if approximate else _erf(x / math.sqrt(2))
    return np.asarray(0.5 * x * (1 + curve))


def _slope(x: _Points, approximate: bool) -> _Points:
    if not approximate:
        density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return np.asarray(0.5 * (1 + _erf(x / math.sqrt(2))) + x * density)
    curve = np.tanh(_LINEAR * (x + _CUBIC * x**3))
    of_curve = (1 - curve**2) * _LINEAR * (1 + 3 * _CUBIC * x * x)
    return np.asarray(0.5 * (1 + curve) + 0.5 * x * of_curve)


def fuse_gelu(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses a unit, and its gradients.

    Args:
        graph: The graph.
        op: An op of a type in `CURVES`.
    """
    approximate = op.type == "Tanh"
    unit = _find_unit(graph, op, approximate) if _is_plain(op.outputs[0]) else None
    if unit is None:
        return
    x, y = unit
    gradients = list(_gradients(graph, x, y, approximate))
    if not graph.is_closed([x, *(dy for _, dy in gradients)], [y, *(dx for dx, _ in gradients)]):
        return
    kind = tf.compat.v1.AttrValue(b=approximate)
    graph.fuse([y], "IpuGelu", y.op, [x], approximate=kind)
    for dx, dy in gradients:
        graph.fuse([dx], "IpuGeluGrad", dx.op, [x, dy], approximate=kind)


def _find_unit(
    graph: FusionGraph, op: tf.Operation, approximate: bool
) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns x and the unit that an op is a part of, None if there is none."""
    expected = _unit(_POINTS, approximate)
    for x in _sources(op.inputs[0]):
        for y, values in _functions(graph, op.outputs[0], {id(x): _POINTS}):
            if y.op.type == "Mul" and _are_close(values, expected):
                return x, y
    return None


def _gradients(
    graph: FusionGraph, x: tf.Tensor, y: tf.Tensor, approximate: bool
) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Yields the gradients of a unit, each with the gradient that it is computed from."""
    expected, ones = _slope(_POINTS, approximate), np.ones_like(_POINTS)
    factors = [product for factor in y.op.inputs for product in graph.results_of(factor, "Mul")]
    causes = {id(dy): dy for product in factors for dy in product.op.inputs}
    for dy in causes.values():
        if dy is x or dy.shape != x.shape:
            continue
        for dx, values in _functions(graph, dy, {id(x): _POINTS, id(dy): ones}):
            twice = _value(dx, {id(x): _POINTS, id(dy): 2 * ones})
            if twice is not None and _are_close(values, expected) and _are_close(twice, 2 * values):
                yield dx, dy
                break


def _sources(tensor: tf.Tensor) -> Iterator[tf.Tensor]:
    """Yields a tensor, and those that it is an element-wise function of, the nearest first."""
    worklist, ids = collections.deque([tensor]), {id(tensor)}
    while worklist and len(ids) < _MOST_SOURCES:
        tensor = worklist.popleft()
        yield tensor
        if tensor.op.type in _FUNCTIONS:
            operands = [each for each in tensor.op.inputs if _is_plain(each)]
            worklist += [each for each in operands if id(each) not in ids]
            ids.update(map(id, operands))


def _functions(
    graph: FusionGraph, tensor: tf.Tensor, values_by_id: dict[int, _Points | None]
) -> Iterator[tuple[tf.Tensor, _Points]]:
    """Yields element-wise functions of known tensors, and their values.

    Args:
        graph: The graph.
        tensor: Where they begin.
        values_by_id: Values of tensors, by their ids.
    """
    worklist, ids = collections.deque([tensor]), {id(tensor)}
    while worklist:
        for use in graph.uses(worklist.popleft()):
            if use.op.type not in _FUNCTIONS or id(result := use.op.outputs[0]) in ids:
                continue
            ids.add(id(result))
            values = _value(result, values_by_id) if _is_plain(result) else None
            if values is not None:
                yield result, values
                worklist.append(result)


def _value(
    tensor: tf.Tensor, values_by_id: dict[int, _Points | None], steps: int = _MOST_STEPS
) -> _Points | None:
    """Returns the values of a tensor if it is an element-wise function of known ones."""
    if id(tensor) not in values_by_id:
        values_by_id[id(tensor)] = None
        number = tf.get_static_value(tensor) if tensor.shape.rank == 0 else None
        if number is not None:
            values_by_id[id(tensor)] = np.full_like(_POINTS, number)
        elif tensor.op.type in _FUNCTIONS and steps:
            values_by_id[id(tensor)] = _value_of_call(tensor.op, values_by_id, steps - 1)
    return values_by_id[id(tensor)]


def _value_of_call(
    op: tf.Operation, values_by_id: dict[int, _Points | None], steps: int
) -> _Points | None:
    operands = []
    for operand in op.inputs:
        values = _value(operand, values_by_id, steps)
        if values is None:
            return None
        operands.append(values)
    with np.errstate(all="ignore"):
        return np.asarray(_FUNCTIONS[op.type](*operands))


def _is_plain(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor is float32, of a known shape, and no scalar."""
    shape = tensor.shape
    return bool(tensor.dtype == tf.float32 and shape.is_fully_defined() and shape.rank)


def _are_close(values: _Points, expected: _Points) -> bool:
    return bool(np.all(np.abs(values - expected) < _TOLERANCE))
