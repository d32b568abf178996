"""What is wrong with an operation: values that are not finite, though its operands are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipu_tf.internals.tensorflow import NodeDef
from ipu_tf.programs.nonfinite import Fault, ValueSummary
from ipu_tf.runtime.execution.value_flow import Place
from ipu_tf.runtime.extraction.function_nodes import STOCK_TYPES

_AROUND = 4
"""Number of values before and behind one that are kept with it."""

_OF_NAN = ("invalid operation", "from outside")
_LINEAR = frozenset({*STOCK_TYPES.values(), "AddN", "Mean", "Sum"})
"""Types of ops whose NaN of finite operands come from an overflow: with NaN on overflow (nanoo), or
as the difference of two sums that overflowed."""

_LARGEST = frozenset({"Max", "Min", "MaxPool", "UnsortedSegmentMax", "UnsortedSegmentMin"})
"""Types of ops that give an infinity for the largest value of none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOp:
    """An operation that is checked.

    Attributes:
        name: Its name.
        op_type: Its TensorFlow type.
        function: Name of its function.
        operands: Names of the floats that it reads.
        places: They in their function.
        divisor: The position, among these, of the operand that it divides by; None for none.
        node: Its NodeDef, where all that it reads are operands; else None.
        is_given: Whether a replay takes its results from the run.
    """

    name: str
    op_type: str
    function: str = ""
    operands: tuple[str, ...]
    places: tuple[Place, ...] = ()
    divisor: int | None = None
    node: NodeDef = None
    is_given: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An operation whose result is not finite, though it should be.

    Attributes:
        op: The operation.
        fault: What happened.
        operands: What it read.
        results: What it computed.
        position: Indices of the first value that is not finite.
        around: The values around it.
        iterations: The loops around it, the outermost first, and the numbers of their iterations.
    """

    op: CheckedOp
    fault: Fault
    operands: tuple[ValueSummary, ...]
    results: tuple[ValueSummary, ...]
    position: tuple[int, ...]
    around: tuple[float, ...]
    iterations: tuple[tuple[str, int], ...] = ()


def finding(op: CheckedOp, values: Sequence[np.ndarray]) -> Finding | None:
    """Returns what is wrong with an operation, None if nothing is.

    Args:
        op: The operation.
        values: Its operands, then its results.
    """
    count = len(op.operands)
    operands, results = values[:count], values[count:]
    with np.errstate(all="ignore"):
        if all(np.isfinite(value).all() for value in results):
            return None
        fault = _fault(op, operands, results)
        if fault is None:
            return None
        kinds = (np.isnan, np.isinf) if fault in _OF_NAN else (np.isinf, np.isnan)
        is_wrong = next(kind for kind in kinds if any(kind(value).any() for value in results))
        wrong = next(value for value in results if is_wrong(value).any())
        flat = int(np.argmax(is_wrong(wrong).ravel()))
        position, around = place_of(flat, wrong)
        return Finding(
            op=op,
            fault=fault,
            operands=tuple(map(summary, op.operands, operands)),
            results=tuple(summary(f"result {i}", value) for i, value in enumerate(results)),
            position=position,
            around=around,
        )


def place_of(flat: int, values: NDArray[np.generic]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Returns the indices of a value, and the values from four before to four behind it.

    Args:
        flat: Its number in row-major order.
        values: The tensor.
    """
    position = tuple(int(index) for index in np.unravel_index(flat, values.shape))
    near = values.ravel()[max(flat - _AROUND, 0) : flat + _AROUND + 1]
    return position, tuple(float(value) for value in near)


def summary(name: str, value: np.ndarray) -> ValueSummary:
    """Returns the range and the histogram of a tensor's finite values, and how many others it
    has."""
    finite = value[np.isfinite(value)]
    _, exponents = np.frexp(np.abs(finite[finite != 0]).astype(np.float64))
    counts = zip(*np.unique(exponents - 1, return_counts=True), strict=True)
    return ValueSummary(
        name=name,
        dtype=value.dtype.name,
        shape=tuple(value.shape),
        low=float(finite.min()) if finite.size else None,
        high=float(finite.max()) if finite.size else None,
        nans=int(np.isnan(value).sum()),
        infinities=int(np.isinf(value).sum()),
        zeros=int((finite == 0).sum()),
        exponents=tuple((int(exponent), int(count)) for exponent, count in counts),
    )


def _fault(
    op: CheckedOp, operands: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]
) -> Fault | None:
    """Returns what made results that are not finite; None if the operands explain them."""
    by_zero = op.divisor is not None and bool((operands[op.divisor] == 0).any())
    if op.op_type in _LARGEST and not all(value.size for value in operands):
        return None
    if any(np.isnan(value).any() for value in operands):
        return None
    if any(np.isnan(value).any() for value in results):
        if op.is_given:
            return "from outside"
        is_finite = all(np.isfinite(value).all() for value in operands)
        return "overflow" if is_finite and op.op_type in _LINEAR else "invalid operation"
    if op.is_given:
        return None
    if any(np.isinf(value).any() for value in operands):
        return None
    return "division by zero" if by_zero else "overflow"
