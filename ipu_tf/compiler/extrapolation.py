"""Derives the step of another batch size from the steps of two: every size is linear in the batch.

A trace of a step takes seconds. Two traces of one function for different numbers of samples are
the same instructions with other sizes, and each size is a constant plus a multiple of the samples.
So the step of any third number follows from the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from ipu_tf.compiler.hlo import Computation, Instruction, InvalidModule, Module, verify
from ipu_tf.compiler.option_plans import plan_of
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.planner.plan import OpShape, Plan


class NotLinear(ValueError):
    """Two steps are not the same instructions, or a size is not linear in the samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """The line through two points of the samples.

    Attributes:
        first: Samples of the first point.
        second: Samples of the second point.
        new_samples: Those of the result.
        names: The names of the second step, by those of the first.
    """

    first: int
    second: int
    new_samples: int
    names: Mapping[str, str]

    def integer(self, first: int, second: int) -> int:
        """Returns the integer on the line through two."""
        if first == second:
            return first
        rise = (second - first) * (self.new_samples - self.first)
        if rise % (self.second - self.first):
            raise NotLinear(f"{first} and {second} have no integer at {self.new_samples} samples.")
        return first + rise // (self.second - self.first)

    def is_named(self, first: str, second: str) -> bool:
        """Returns whether two texts are equal, or the names of the same thing."""
        return self.names.get(first, first) == second


def extrapolated(first: TracedStep, second: TracedStep, samples: int) -> TracedStep:
    """Returns the step of a number of samples, from those of two other numbers.

    Contents of constants that are no sizes, such as the reciprocal of the samples, are those of
    `first`: no figure depends on them. The tile ops are planned for their new shapes.

    Args:
        first: A step, simplified or not.
        second: The step of the same function for another number of samples.
        samples: The samples of a run of the wanted step.

    Raises:
        NotLinear: The steps differ in more than sizes that are linear in the samples.
        PlanDoesNotFit: No plan of a tile op fits a tile.
    """
    if first.samples_per_run == second.samples_per_run:
        raise NotLinear(f"Both steps are of {first.samples_per_run} samples.")
    a, b = first.module, second.module
    line = _Line(
        first=first.samples_per_run,
        second=second.samples_per_run,
        new_samples=samples,
        names=_names(a, b),
    )
    if a.parameters != b.parameters or not line.is_named(a.entry, b.entry):
        raise NotLinear("The steps have other parameters.")
    computations = {
        x.name: _computation(x, y, line)
        for x, y in zip(a.computations.values(), b.computations.values(), strict=True)
    }
    module = a.replace(computations=computations)
    try:
        verify(module)
    except InvalidModule as error:
        raise NotLinear(str(error)) from error
    return dataclasses.replace(
        first, module=module, plans=_plans(first, second, line), samples_per_run=samples
    )


def _names(a: Module, b: Module) -> Mapping[str, str]:
    """Returns the names in a step by those in another one: the n-th is the n-th of the other."""
    names: dict[str, str] = {}
    if len(a.computations) != len(b.computations):
        raise NotLinear("The steps have other computations.")
    for x, y in zip(a.computations.values(), b.computations.values(), strict=True):
        if len(x.instructions) != len(y.instructions):
            raise NotLinear(f"Computation '{x.name}' has other instructions.")
        names[x.name] = y.name
        names.update((one.name, other.name) for one, other in zip(x, y, strict=True))
    return names


def _computation(a: Computation, b: Computation, line: _Line) -> Computation:
    if not line.is_named(a.root, b.root):
        raise NotLinear(f"Computation '{a.name}' has another result.")
    pairs = zip(a, b, strict=True)
    return dataclasses.replace(a, instructions=tuple(_instruction(x, y, line) for x, y in pairs))


def _instruction(a: Instruction, b: Instruction, line: _Line) -> Instruction:
    equal_fields = ("opcode", "op_type", "layer", "phase")
    is_same = all(getattr(a, field) == getattr(b, field) for field in equal_fields)
    for x, y in ((a.operands, b.operands), (a.computations, b.computations)):
        is_same = is_same and len(x) == len(y) and all(map(line.is_named, x, y))
    if not is_same:
        raise NotLinear(f"'{a.name}' ({a.opcode}) is another instruction, {b.opcode}.")
    try:
        return a.replace(
            type=_between(a.type, b.type, line),
            attributes=_between(a.attributes, b.attributes, line),
        )
    except NotLinear as error:
        raise NotLinear(f"'{a.name}' ({a.opcode}): {error}") from None


def _plans(a: TracedStep, b: TracedStep, line: _Line) -> Mapping[str, tuple[OpShape, Plan]]:
    """Returns the plans of the tile ops at their new shapes."""
    if a.plans.keys() != b.plans.keys():
        raise NotLinear("The steps have other tile ops.")
    plans: dict[str, tuple[OpShape, Plan]] = {}
    for name, (shape, plan) in a.plans.items():
        if plan != plan_of(shape, a.options):
            raise NotLinear(f"The plan of '{name}' is not that of the planner.")
        target_shape = cast("OpShape", _between(shape, b.plans[name][0], line))
        plans[name] = target_shape, plan_of(target_shape, a.options)
    return plans


def _between(a: object, b: object, line: _Line) -> object:
    """Returns the value on the line through two, part by part."""
    if type(a) is not type(b):
        raise NotLinear(f"{a!r} and {b!r} are of different kinds.")
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return _array(a, b, line)
    if isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool):
        return line.integer(a, b)
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        parts = {
            field.name: _between(getattr(a, field.name), getattr(b, field.name), line)
            for field in dataclasses.fields(a)
        }
        return type(a)(**parts)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            raise NotLinear(f"{sorted(a)} and {sorted(b)} differ.")
        return {key: _between(value, b[key], line) for key, value in a.items()}
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        if len(a) != len(b):
            raise NotLinear(f"{a!r} and {b!r} differ in length.")
        return type(a)(_between(x, y, line) for x, y in zip(a, b, strict=True))
    if (
        isinstance(a, float)
        or a == b
        or (isinstance(a, str) and isinstance(b, str) and line.is_named(a, b))
    ):
        return a
    raise NotLinear(f"{a!r} and {b!r} differ.")


def _array(a: np.ndarray, b: np.ndarray, line: _Line) -> np.ndarray:
    """Returns a constant: integers on the line, other values as they are.

    A constant may have another shape if all of its elements are equal.
    """
    if a.dtype != b.dtype or a.ndim != b.ndim:
        raise NotLinear("constants differ in type.")
    if a.shape != b.shape:
        shape = cast("tuple[int, ...]", _between(a.shape, b.shape, line))
        values = np.unique(a)
        if values.size != 1 or not np.array_equal(values, np.unique(b)):
            raise NotLinear(f"constants of shapes {a.shape} and {b.shape} differ.")
        return np.full(shape, values[0], a.dtype)
    if a.dtype.kind not in "iu" or np.array_equal(a, b):
        return a
    pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    return np.array([line.integer(x, y) for x, y in pairs], a.dtype).reshape(a.shape)
