"""Merges instructions that compute the same value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import (
    SOURCES,
    each_program,
    has_side_effect,
    programs,
    rewrite,
    with_side_effects,
)


def run(module: Module) -> Module:
    """Returns the module without equal instructions in a computation.

    The first of them stays. Equal computations that are applied to elements are merged, too.
    """
    module = _with_shared_functions(module)
    effects = with_side_effects(module)

    def merge(computation: Computation) -> Computation:
        first_names: dict[Hashable, str] = {}

        def step(instruction: Instruction, by_name: Mapping[str, Instruction]) -> Instruction | str:
            del by_name
            if instruction.opcode in SOURCES or has_side_effect(instruction, effects):
                return instruction
            first = first_names.setdefault(_key(instruction), instruction.name)
            return first if first != instruction.name else instruction

        return rewrite(computation, step)

    return each_program(module, merge)


def _key(instruction: Instruction) -> Hashable:
    return (
        instruction.opcode,
        instruction.type,
        instruction.operands,
        instruction.computations,
        _attributes_key(instruction),
    )


def _attributes_key(instruction: Instruction) -> Hashable:
    return tuple((key, _hashable(value)) for key, value in instruction.attributes.items())


def _hashable(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    # 1, 1.0 and True are equal, but not the same attribute.
    return type(value), value


def _with_shared_functions(module: Module) -> Module:
    """Returns the module with equal functions of elements merged."""
    control = set(programs(module))
    first: dict[Hashable, str] = {}
    equal_functions = {
        name: first.setdefault(_function_key(computation), name)
        for name, computation in module.computations.items()
        if name not in control
    }

    def with_equal_callees(instruction: Instruction) -> Instruction:
        callees = tuple(equal_functions.get(name, name) for name in instruction.computations)
        if callees == instruction.computations:
            return instruction
        return instruction.replace(computations=callees)

    computations = {
        name: Computation(
            name=name, instructions=tuple([with_equal_callees(i) for i in c]), root=c.root
        )
        for name, c in module.computations.items()
        if equal_functions.get(name, name) == name
    }
    return module.replace(computations=computations)


def _function_key(computation: Computation) -> Hashable:
    numbers = {instruction.name: index for index, instruction in enumerate(computation)}
    lines = tuple(
        (
            instruction.opcode,
            instruction.type,
            tuple(numbers[operand] for operand in instruction.operands),
            instruction.computations,
            _attributes_key(instruction),
        )
        for instruction in computation
    )
    return lines, numbers[computation.root]
