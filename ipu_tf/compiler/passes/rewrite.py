"""Helpers of passes: walks over computations, renaming, callers and users."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from ipu_tf.compiler.hlo import Computation, Instruction, Module

Step: TypeAlias = Callable[[Instruction, Mapping[str, Instruction]], Instruction | str]
"""Maps an instruction and those before it to its replacement: an instruction, or the name of one
before it."""

CONTROL = frozenset({"while", "conditional", "call"})
_SIDE_EFFECTS = frozenset({"host-call", "infeed", "outfeed", "send", "recv", "custom-call"})
SOURCES = frozenset({"parameter", "infeed", "rng", "rng-bit-generator", "host-call", "custom-call"})
"""Opcodes of which two equal instructions give different values."""


def rewrite(computation: Computation, step: Step) -> Computation:
    """Returns a computation in which `step` has replaced instructions, first to last.

    `step` gets each instruction with its operands renamed already.
    """
    aliases: dict[str, str] = {}
    by_name: dict[str, Instruction] = {}
    for instruction in computation:
        current = rename_operands(instruction, aliases)
        result = step(current, by_name)
        if isinstance(result, str):
            aliases[instruction.name] = result
            continue
        if result.name != instruction.name:
            aliases[instruction.name] = result.name
        by_name[result.name] = result
    root = aliases.get(computation.root, computation.root)
    return Computation(name=computation.name, instructions=tuple(by_name.values()), root=root)


def rename_operands(instruction: Instruction, aliases: Mapping[str, str]) -> Instruction:
    """Returns the instruction with renamed operands."""
    if not any(operand in aliases for operand in instruction.operands):
        return instruction
    operands = tuple([aliases.get(operand, operand) for operand in instruction.operands])
    return instruction.replace(operands=operands)


def each_program(module: Module, change: Callable[[Computation], Computation]) -> Module:
    """Returns the module with its programs (see `programs`) changed."""
    computations = dict(module.computations)
    for name in programs(module):
        computations[name] = change(computations[name])
    return module.replace(computations=computations)


def programs(module: Module) -> list[str]:
    """Returns the names of the computations that run step by step, callers first.

    The others are applied to elements: by a reduce, a sort, a fusion.
    """
    names: dict[str, None] = {module.entry: None}
    worklist = deque([module.entry])
    while worklist:
        for instruction in module.computations[worklist.popleft()]:
            if instruction.opcode in CONTROL:
                new = [name for name in instruction.computations if name not in names]
                names.update(dict.fromkeys(new))
                worklist += new
    return list(names)


def with_side_effects(module: Module) -> frozenset[str]:
    """Returns the names of the computations with side effects."""
    names: set[str] = set()
    size = -1
    while size != len(names):
        size = len(names)
        for name, computation in module.computations.items():
            if any(has_side_effect(instruction, names) for instruction in computation):
                names.add(name)
    return frozenset(names)


def has_side_effect(instruction: Instruction, computations: Iterable[str]) -> bool:
    """Whether an instruction has side effects.

    Args:
        instruction: The instruction.
        computations: Names of the computations known to have side effects.
    """
    if instruction.opcode in _SIDE_EFFECTS:
        return True
    return any(callee in computations for callee in instruction.computations)


def with_instructions(
    computation: Computation, instructions: Iterable[Instruction], root: str | None = None
) -> Computation:
    """Returns a computation with other instructions."""
    return dataclasses.replace(
        computation, instructions=tuple(instructions), root=root or computation.root
    )
