"""Finds values of a computation that are constants of its caller.

A loop keeps the values it reads in its state. If no iteration changes a part of the state and the
part is a constant before the loop, it is that constant inside, too: for example limits of inner
loops, and tables of such limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import programs

ConstantValue: TypeAlias = "np.ndarray | tuple[ConstantValue, ...] | None"
"""A constant, a tuple of known values, or None for an unknown value."""

_MAX_ELEMENTS = 1 << 16
"""Tables of limits have one entry per iteration; larger arrays are zeros of weights' gradients."""


def known_values(module: Module) -> dict[str, dict[str, ConstantValue]]:
    """Returns the known values of every program of a module, by computation and instruction."""
    callers: dict[str, int] = {}
    for name in programs(module):
        for instruction in module.computations[name]:
            for callee in instruction.computations:
                callers[callee] = callers.get(callee, 0) + 1
    parameters: dict[str, ConstantValue] = {}
    values_of_computations: dict[str, dict[str, ConstantValue]] = {}
    for name in programs(module):
        values: dict[str, ConstantValue] = {}
        for instruction in module.computations[name]:
            if instruction.opcode == "parameter":
                values[instruction.name] = parameters.get(name)
            else:
                values[instruction.name] = _value(instruction, values)
            for callee, callee_parameters in _callee_arguments(instruction, values, module):
                if callers[callee] == 1:
                    parameters[callee] = callee_parameters
        values_of_computations[name] = values
    return values_of_computations


def kept_parts(body: Computation) -> frozenset[int]:
    """Returns the parts of the state of a loop that no iteration changes."""
    instructions = body.by_name()
    result = instructions[body.root]
    if result.opcode != "tuple":
        return frozenset()
    return frozenset(
        index
        for index, operand in enumerate(result.operands)
        if (part := instructions[operand]).opcode == "get-tuple-element"
        and part.attributes["tuple_index"] == index
        and instructions[part.operands[0]].opcode == "parameter"
    )


def _callee_arguments(
    instruction: Instruction, values: Mapping[str, ConstantValue], module: Module
) -> list[tuple[str, ConstantValue]]:
    """Returns the known parameters of the computations that an instruction calls."""
    if instruction.opcode == "while":
        state = values[instruction.operands[0]]
        if not isinstance(state, tuple):
            return []
        constants = kept_parts(module.computations[instruction.computations[0]])
        inside = tuple(value if index in constants else None for index, value in enumerate(state))
        return [(callee, inside) for callee in instruction.computations]
    if instruction.opcode == "conditional":
        arguments = instruction.operands[1:]
        return [
            (callee, values[argument])
            for callee, argument in zip(instruction.computations, arguments, strict=False)
        ]
    return []


def _value(instruction: Instruction, values: Mapping[str, ConstantValue]) -> ConstantValue:
    literal = instruction.attributes.get("literal")
    if instruction.opcode == "constant" and literal is not None:
        return np.asarray(literal)
    if instruction.opcode == "tuple":
        return tuple(values[operand] for operand in instruction.operands)
    if not instruction.operands:
        return None
    source = values[instruction.operands[0]]
    if instruction.opcode == "get-tuple-element" and isinstance(source, tuple):
        return source[instruction.attributes["tuple_index"]]
    if not isinstance(source, np.ndarray) or not isinstance(instruction.type, Array):
        return None
    if instruction.type.elements > _MAX_ELEMENTS:
        return None
    if instruction.opcode in ("reshape", "copy"):
        return source.reshape(instruction.type.dims)
    is_uniform = source.size > 0 and bool((source == source.flat[0]).all())
    if instruction.opcode in ("dynamic-slice", "slice", "broadcast") and is_uniform:
        return np.full(instruction.type.dims, source.flat[0], source.dtype)
    return None
