"""The space of a sweep: the values of every parameter; its points are all combinations."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipu_tf.machine.system import System
from ipu_tf.machine.target import CHIPS, Target
from ipu_tf.sweep.point import Machine, Point, Streaming

PRECISIONS = ("float32", "mixed_float16", "float16")
"""Dtype policies that a sweep sets."""

_LARGEST = 100_000
"""Points of a sweep at most: a day of estimates of a second each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The values of every parameter of `Point`, at least one each.

    Raises:
        ValueError: A list is empty, a value is invalid, or there are too many points.
    """

    chip: Sequence[Machine] = ("bow",)
    tile_kib: Sequence[float | None] = (None,)
    streaming: Sequence[Streaming | None] = (None,)
    batch_size: Sequence[int] = (1,)
    replicas: Sequence[int] = (1,)
    stages: Sequence[int] = (1,)
    accumulation: Sequence[int] = (1,)
    precision: Sequence[str] = ("float32",)
    offload: Sequence[bool] = (False,)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            values = getattr(self, field.name)
            if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
                raise ValueError(
                    f"`{field.name}` of a sweep must be a list of at least one value. "
                    f"Received: {values!r}."
                )
            for value in values:
                _check(field.name, value)
        if self.size > _LARGEST:
            raise ValueError(
                f"A sweep has at most {_LARGEST:,} points: all combinations of its values. Give "
                f"fewer values. Received: {self.size:,} points."
            )

    @property
    def size(self) -> int:
        """Number of combinations."""
        size = 1
        for field in dataclasses.fields(self):
            size *= len(getattr(self, field.name))
        return size

    def points(self) -> Iterator[Point]:
        """Yields every combination once, the last parameter changing first."""
        names = [field.name for field in dataclasses.fields(self)]
        keys: set[str] = set()
        for values in itertools.product(*(getattr(self, name) for name in names)):
            point = Point(**dict(zip(names, values, strict=True)))
            if point.key not in keys:
                keys.add(point.key)
                yield point


def _check(name: str, value: Any) -> None:
    """Checks one value of a parameter.

    Raises:
        ValueError: It is of the wrong kind, or out of its range.
    """
    is_right, rule = _RULES[name]
    if not is_right(value):
        raise ValueError(f"Values of `{name}` of a sweep must be {rule}. Received: {value!r}.")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_power(value: Any) -> bool:
    return _is_count(value) and not value & (value - 1)


def _is_size(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and 0 < value < math.inf)


def _is_machine(value: Any) -> bool:
    if isinstance(value, str):
        return value in CHIPS or ":" in value
    return isinstance(value, Target | System)


_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "chip": (
        _is_machine,
        f"of {', '.join(CHIPS)}, 'module:name' of a target or system, or such a value",
    ),
    "tile_kib": (_is_size, "positive numbers of KiB, or None"),
    "streaming": (lambda value: isinstance(value, Streaming | None), "of `Streaming`, or None"),
    "batch_size": (_is_count, "positive ints"),
    "replicas": (_is_power, "powers of two, as IPUs are handed out"),
    "stages": (_is_power, "powers of two, as IPUs are handed out"),
    "accumulation": (_is_count, "positive ints"),
    "precision": (
        lambda value: isinstance(value, str) and value in PRECISIONS,
        f"of {', '.join(map(repr, PRECISIONS))}",
    ),
    "offload": (lambda value: isinstance(value, bool), "True or False"),
}
"""By parameter: whether a value is right, and which are."""
