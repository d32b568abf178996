"""Reads the fields of a record: sizes by any of their names, types in any spelling."""

from __future__ import annotations

import dataclasses
import re

from ipu_tf.calibration.measurement_numbers import is_out_of_range, leading_number
from ipu_tf.calibration.outcome import CannotPredict
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.machine.target import Target, target

_TYPE = re.compile(
    r"f8|f16|f32|fp8|fp16|fp32|float8|float16|float32|half|single|mixed|quarter|float"
)
_TYPES = {
    "f8": "float8", "fp8": "float8", "float8": "float8", "quarter": "float8",
    "f16": "float16", "fp16": "float16", "float16": "float16", "half": "float16",
    "mixed": "float16",
    "f32": "float32", "fp32": "float32", "float32": "float32", "single": "float32",
    "float": "float32",
}  # fmt: skip


def number(record: MeasuredPoint, *names: str, default: float | None = None) -> float:
    """Returns the first parameter of those names; a text may go on after its number.

    Raises:
        CannotPredict: There is none of them and no default, or it is not a number of a measurement.
    """
    for name in names:
        value = record.params.get(name)
        if value is None:
            continue
        figure = leading_number(value)
        if figure is None:
            raise CannotPredict(f"the parameter {name!r} is not a number")
        if is_out_of_range(figure):
            raise CannotPredict(f"the parameter {name!r} is out of range")
        return figure
    if default is None:
        raise CannotPredict(f"needs the parameter {' or '.join(map(repr, names))}")
    return default


def whole(record: MeasuredPoint, *names: str, default: int | None = None) -> int:
    """Returns the first parameter of those names as a positive whole number.

    Raises:
        CannotPredict: There is none of them and no default, or it is no positive whole number.
    """
    value = number(record, *names, default=default)
    if value != int(value) or value < 1:
        raise CannotPredict(f"{' or '.join(map(repr, names))} must be a positive whole number")
    return int(value)


def says(record: MeasuredPoint, *words: str) -> bool:
    """Returns whether the record says one of the words."""
    return any(word in record.text for word in words)


def input_dtype(record: MeasuredPoint) -> str:
    """Returns the type of the inputs: the first that the record's `dtype` names.

    Raises:
        CannotPredict: It names none.
    """
    types = _types(record.dtype)
    if not types:
        raise CannotPredict(f"the dtype {record.dtype!r} names no type")
    return types[0]


def partials_dtype(record: MeasuredPoint) -> str:
    """Returns the type of partial results: the text after an arrow in the dtype, or the parameter
    "partials"; else float32, the library's default.
    """
    _, arrow, result = record.dtype.partition("->")
    types = _types(result) if arrow else _types(str(record.params.get("partials", "")))
    return types[0] if types else "float32"


def target_of(record: MeasuredPoint) -> Target:
    """Returns the chip that was measured, with the clock that the record states.

    Raises:
        CannotPredict: The record states a clock that is not a number.
        ValueError: The chip is unknown.
    """
    chip = target(record.chip.lower())
    clock_hz = number(record, "clock_hz", default=chip.clock_hz)
    return dataclasses.replace(chip, clock_hz=clock_hz)


def _types(text: str) -> list[str]:
    return [_TYPES[name] for name in _TYPE.findall(text.lower())]
