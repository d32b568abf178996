"""Folds instructions whose operands are small constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ipu_tf.compiler.hlo import Array, Instruction, Module
from ipu_tf.compiler.hlo.literal import MAX_ELEMENTS, NUMPY_DTYPES
from ipu_tf.compiler.passes.rewrite import each_program, rewrite

Values = list[np.ndarray]
Fold = Callable[[Instruction, Values], object]


def run(module: Module) -> Module:
    """Returns the module with constants in place of instructions on small constants.

    Broadcasts stay, so that a scalar remains one wherever it is used.
    """
    return each_program(module, lambda computation: rewrite(computation, _step))


def _step(instruction: Instruction, by_name: Mapping[str, Instruction]) -> Instruction:
    fold, type_ = _FOLDS.get(instruction.opcode), instruction.type
    if fold is None or not isinstance(type_, Array) or type_.elements > MAX_ELEMENTS:
        return instruction
    if type_.dtype in _INEXACT:
        return instruction
    literals = [by_name[name].attributes.get("literal") for name in instruction.operands]
    values = [value for value in literals if value is not None]
    if len(values) < len(literals):
        return instruction
    # XLA's arithmetic wraps and makes infinities and NaNs silently.
    with np.errstate(all="ignore"):
        result: np.ndarray = np.asarray(fold(instruction, values)).astype(NUMPY_DTYPES[type_.dtype])
    attributes = {"literal": result.reshape(type_.dims)}
    return instruction.replace(opcode="constant", operands=(), attributes=attributes)


def _elementwise(function: Callable[..., object]) -> Fold:
    return lambda instruction, values: function(*values)


def _divide(instruction: Instruction, values: Values) -> object:
    del instruction
    dividend, divisor = values
    if dividend.dtype.kind == "f":
        return dividend / divisor
    # Integers round towards zero; XLA defines x / 0 as -1.
    safe = np.where(divisor == 0, 1, divisor)
    quotient = np.trunc(dividend.astype(np.longdouble) / safe.astype(np.longdouble))
    return np.where(divisor == 0, -1, quotient)


def _remainder(instruction: Instruction, values: Values) -> object:
    del instruction
    dividend, divisor = values
    if dividend.dtype.kind == "f":
        return np.fmod(dividend, divisor)
    return np.where(divisor == 0, dividend, np.fmod(dividend, np.where(divisor == 0, 1, divisor)))


def _compare(instruction: Instruction, values: Values) -> object:
    return _COMPARISONS[instruction.attributes["comparison_direction"]](*values)


def _slice(instruction: Instruction, values: Values) -> object:
    dimensions = instruction.attributes["slice_dimensions"]
    return values[0][tuple(slice(d.start, d.limit, d.stride) for d in dimensions)]


def _concatenate(instruction: Instruction, values: Values) -> object:
    return np.concatenate(values, axis=instruction.attributes["dimensions"][0])


def _transpose(instruction: Instruction, values: Values) -> object:
    return np.transpose(values[0], instruction.attributes["dimensions"])


_INEXACT = frozenset({"bf16", "f8e4m3", "f8e5m2"})
"""Types that NumPy lacks, so it cannot round to them."""

_COMPARISONS: Mapping[str, Callable[..., object]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal,
    "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip

_FOLDS: Mapping[str, Fold] = {
    "add": _elementwise(np.add),
    "subtract": _elementwise(np.subtract),
    "multiply": _elementwise(np.multiply),
    "divide": _divide,
    "remainder": _remainder,
    "maximum": _elementwise(np.maximum),
    "minimum": _elementwise(np.minimum),
    "negate": _elementwise(np.negative),
    "abs": _elementwise(np.abs),
    "sign": _elementwise(np.sign),
    "sqrt": _elementwise(np.sqrt),
    "floor": _elementwise(np.floor),
    "and": _elementwise(np.bitwise_and),
    "or": _elementwise(np.bitwise_or),
    "xor": _elementwise(np.bitwise_xor),
    "not": _elementwise(np.invert),
    "select": _elementwise(np.where),
    "compare": _compare,
    "convert": _elementwise(np.asarray),
    "reshape": _elementwise(np.asarray),
    "slice": _slice,
    "concatenate": _concatenate,
    "transpose": _transpose,
}
"""Functions of the opcodes that this pass folds; others are as fast on the machine."""
