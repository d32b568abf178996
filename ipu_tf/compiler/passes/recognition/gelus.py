"""Recognises Gaussian error linear units and their gradients by their values.

A unit is written in many ways. The pass takes the element-wise functions of one tensor x, or of x
and a gradient, that a layer computes with an `erf` or a `tanh`, and compares their values at some
points with the unit's. The library has one vertex for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.identities import scalar_of
from ipu_tf.compiler.passes.rewrite import each_program, with_instructions

_Points = NDArray[np.float64]
_POINTS: _Points = np.linspace(-4.0, 4.0, 17)
_TOLERANCE = 0.02
"""Largest difference from the unit: constants are float16, and both kinds differ by 0.0005."""

_MOST_TENSORS = 2
_FLOATS = frozenset({"f32", "f16", "bf16"})


def _erf(x: _Points) -> _Points:
    # Winitzki's approximation, within 0.00035; without TensorFlow there is no library function.
    ratio = 4 / np.pi + 0.147 * x * x
    root = np.sqrt(1 - np.exp(-x * x * ratio / (1 + 0.147 * x * x)))
    return np.asarray(np.sign(x) * root)


def _unit(x: _Points) -> _Points:
    return 0.5 * x * (1 + _erf(x / np.sqrt(2)))


def _slope(x: _Points) -> _Points:
    density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    return np.asarray(0.5 * (1 + _erf(x / np.sqrt(2))) + x * density)


_FUNCTIONS: Mapping[str, Callable[..., _Points]] = {
    "add": np.add,
    "convert": np.positive,
    "divide": np.divide,
    "erf": _erf,
    "exponential": np.exp,
    "multiply": np.multiply,
    "negate": np.negative,
    "subtract": np.subtract,
    "tanh": np.tanh,
}


def run(module: Module) -> Module:
    """Returns the module with `gelu` or `gelu-tanh` for units, and `...-grad` for gradients.

    Operands: x, and the gradient. Expects known layers, `erf` and products instead of powers.
    """
    return each_program(module, lambda computation: _Rewriter(computation).computation())


class _Rewriter:
    """Rewrites one computation."""

    def __init__(self, computation: Computation) -> None:
        self._computation = computation
        self._definitions = computation.by_name()
        self._read_by = computation.users
        self._tensors: dict[str, frozenset[str]] = {}
        self._kinds: dict[str, frozenset[str]] = {}

    def computation(self) -> Computation:
        """Returns the computation with units."""
        if not any(i.opcode in ("erf", "tanh") for i in self._computation):
            return self._computation
        for instruction in self._computation:
            self._describe(instruction)
        units = {
            instruction.name: unit
            for instruction in self._computation
            if self._is_read(instruction) and (unit := self._unit(instruction)) is not None
        }
        return with_instructions(
            self._computation, [units.get(i.name, i) for i in self._computation]
        )

    def _describe(self, instruction: Instruction) -> None:
        """Notes the tensors that an instruction is a function of, and the functions within it."""
        type_, name = instruction.type, instruction.name
        if not isinstance(type_, Array) or type_.dtype not in _FLOATS:
            return
        if scalar_of(name, self._definitions) is not None:
            self._tensors[name], self._kinds[name] = frozenset(), frozenset()
            return
        tensor = frozenset({name})
        self._tensors[name], self._kinds[name] = tensor, frozenset()
        if instruction.opcode not in _FUNCTIONS:
            return
        tensors: frozenset[str] = frozenset()
        kinds = frozenset({instruction.opcode} & {"erf", "tanh"})
        for operand in instruction.operands:
            tensors |= self._read_tensors(operand, instruction.layer)
            if tensors and operand not in tensors:
                kinds |= self._kinds.get(operand, frozenset())
        if len(tensors) <= _MOST_TENSORS:
            self._tensors[name], self._kinds[name] = tensors, kinds

    def _read_tensors(self, operand: str, layer: str) -> frozenset[str]:
        """Returns the tensors that an operand is a function of within a layer."""
        tensors = self._tensors.get(operand, frozenset({operand}))
        return (
            tensors
            if not tensors or self._definitions[operand].layer == layer
            else frozenset({operand})
        )

    def _is_read(self, instruction: Instruction) -> bool:
        """Returns whether others read an instruction that contains an `erf` or a `tanh`."""
        name = instruction.name
        if not self._kinds.get(name) or instruction.opcode in ("erf", "tanh"):
            return False
        readers = self._read_by[name]
        return name == self._computation.root or any(
            reader.layer != instruction.layer
            or name in self._tensors.get(reader.name, frozenset({name}))
            or not isinstance(reader.type, Array)
            for reader in readers
        )

    def _unit(self, instruction: Instruction) -> Instruction | None:
        """Returns the unit that an instruction computes, or its gradient; None for neither."""
        tensors = sorted(self._tensors[instruction.name])
        opcode = "gelu-tanh" if "tanh" in self._kinds[instruction.name] else "gelu"
        if len(tensors) == 1:
            values = self._values(instruction.name, {tensors[0]: _POINTS})
            is_unit = _is_close(values, _unit(_POINTS))
            return self._unit_instruction(instruction, opcode, tensors) if is_unit else None
        for x, gradient in (tensors, tensors[::-1]):
            ones = np.ones_like(_POINTS)
            once = self._values(instruction.name, {x: _POINTS, gradient: ones})
            twice = self._values(instruction.name, {x: _POINTS, gradient: 2 * ones})
            if _is_close(once, _slope(_POINTS)) and _is_close(twice, 2 * once):
                return self._unit_instruction(instruction, f"{opcode}-grad", [x, gradient])
        return None

    def _unit_instruction(
        self, instruction: Instruction, opcode: str, operands: list[str]
    ) -> Instruction | None:
        """Returns the unit if it has the type of its operands."""
        if any(self._definitions[name].type != instruction.type for name in operands):
            return None
        return instruction.replace(opcode=opcode, operands=tuple(operands), attributes={})

    def _values(self, name: str, values: dict[str, _Points]) -> _Points:
        """Returns the values of an instruction where those of its tensors are known."""
        if name not in values:
            value = scalar_of(name, self._definitions)
            if value is not None:
                values[name] = np.full_like(_POINTS, value)
            else:
                instruction = self._definitions[name]
                operands = [self._values(operand, values) for operand in instruction.operands]
                points = _FUNCTIONS[instruction.opcode](*operands)
                values[name] = 1 - points if instruction.attributes.get("complement") else points
        return values[name]


def _is_close(values: _Points, reference: _Points) -> bool:
    return bool(np.all(np.abs(values - reference) < _TOLERANCE))
