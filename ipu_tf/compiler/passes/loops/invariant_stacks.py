"""Stores a value once if a loop pushes it on a stack unchanged in every iteration.

A loop keeps the values that its gradient reads on stacks, one value for each iteration. A value
that is the same in all iterations (the kernel of a recurrent layer, its half precision copy) needs
no stack: every row is that value. `sunk_broadcasts` hands the gradient one row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.caller_constants import kept_parts
from ipu_tf.compiler.passes.loops.loop_state import WhileLoop, loops_of, parameter_of, parts_of
from ipu_tf.compiler.passes.rewrite import (
    CONTROL,
    SOURCES,
    has_side_effect,
    programs,
    rename_operands,
    with_instructions,
    with_side_effects,
)

_PUSH = "TensorListPushBack"
"""The op that pushes. No op reads rows above the last push, whatever the length of the loop."""

_ONCE = SOURCES | CONTROL | {"dot", "convolution"}
"""Opcodes that passes must not copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """A stack on which a loop pushes the same value in every iteration.

    Attributes:
        part: Number of the part of the loop's state.
        push: The instruction that pushes, in the body.
        type: Type of the stack.
    """

    part: int
    push: Instruction
    type: Array

    @property
    def row(self) -> str:
        """Name of the pushed value, an array of one row."""
        return self.push.operands[1]


def run(module: Module) -> Module:
    """Returns the module with broadcasts in place of stacks of one value.

    The loops still fill these stacks, but nothing reads them.
    """
    effects = with_side_effects(module)
    # Inner loops first: their values may be the same in all iterations of the outer one, too.
    for name in reversed(programs(module)):
        computation = _with_broadcasts(module.computations[name], module, effects)
        module = module.replace(computations={**module.computations, name: computation})
    return module


def _with_broadcasts(
    computation: Computation, module: Module, effects: Collection[str]
) -> Computation:
    """Returns a computation that broadcasts the values that its loops push unchanged."""
    loops = {loop.instruction.name: loop for loop in loops_of(computation, module)}
    if not loops:
        return computation
    instructions: list[Instruction] = []
    aliases: dict[str, str] = {}
    for original in computation:
        if original.name in aliases:
            continue
        instructions.append(rename_operands(original, aliases))
        if original.name not in loops:
            continue
        loop = loops[original.name]
        part_of_names = parts_of(computation, original.name)
        stacks = [s for s in _stacks(loop, effects) if s.part in part_of_names.values()]
        copies, names = _after_loop(loop, {stack.row for stack in stacks})
        instructions += [rename_operands(copy, aliases) for copy in copies]
        for stack in stacks:
            name = f"{original.name}.stack{stack.part}"
            instructions += _broadcast(stack, names[stack.row], name)
            aliases.update(
                (number, name) for number, part in part_of_names.items() if part == stack.part
            )
    root = aliases.get(computation.root, computation.root)
    return with_instructions(computation, instructions, root)


def _stacks(loop: WhileLoop, effects: Collection[str]) -> Iterator[_Stack]:
    """Yields the stacks on which a loop pushes the same value in every iteration."""
    body = loop.body.by_name()
    state = parts_of(loop.body, parameter_of(loop.body))
    invariant = _invariants(loop, effects)
    read_by = loop.body.users
    for part, name in enumerate(loop.next_state):
        push = body[name]
        if push.opcode != "dynamic-update-slice" or push.op_type != _PUSH:
            continue
        before, row = push.operands[:2]
        is_only_pushed = state.get(before) == part and len(read_by[before]) == 1
        if isinstance(push.type, Array) and is_only_pushed and row in invariant:
            yield _Stack(part=part, push=push, type=push.type)


def _invariants(loop: WhileLoop, effects: Collection[str]) -> set[str]:
    """Returns the names of the arrays in a body that are the same in every iteration."""
    invariant_parts = kept_parts(loop.body)
    state = parts_of(loop.body, parameter_of(loop.body))
    invariants: set[str] = set()
    for instruction in loop.body:
        if instruction.name in state:
            is_invariant = state[instruction.name] in invariant_parts
        else:
            is_invariant = (
                isinstance(instruction.type, Array)
                and instruction.opcode not in _ONCE
                and not has_side_effect(instruction, effects)
                and invariants.issuperset(instruction.operands)
            )
        if is_invariant:
            invariants.add(instruction.name)
    return invariants


def _after_loop(
    loop: WhileLoop, values: Collection[str]
) -> tuple[list[Instruction], Mapping[str, str]]:
    """Returns instructions that compute invariant values of a body outside of the loop.

    Args:
        loop: The loop.
        values: Names of the values.

    Returns:
        The instructions, and the names of the values outside of the loop.
    """
    state = parts_of(loop.body, parameter_of(loop.body))
    live = set(values)
    for instruction in reversed(loop.body.instructions):
        if instruction.name in live and instruction.name not in state:
            live.update(instruction.operands)
    copies: list[Instruction] = []
    names: dict[str, str] = {}
    for instruction in loop.body:
        if instruction.name not in live:
            continue
        if instruction.name in state:
            names[instruction.name] = loop.initial.operands[state[instruction.name]]
            continue
        copy = rename_operands(instruction, names)
        names[instruction.name] = f"{loop.instruction.name}.{instruction.name}"
        copies.append(copy.replace(name=names[instruction.name]))
    return copies, names


def _broadcast(stack: _Stack, row: str, name: str) -> list[Instruction]:
    """Returns the instructions of a stack of equal rows.

    Args:
        stack: The stack.
        row: Name of one row outside of the loop.
        name: Name of the result.
    """
    value = stack.push.replace(
        name=f"{name}.row",
        opcode="reshape",
        type=Array(stack.type.dtype, stack.type.dims[1:]),
        operands=(row,),
        attributes={},
    )
    dimensions = tuple(range(1, len(stack.type.dims)))
    rows = stack.push.replace(
        name=name,
        opcode="broadcast",
        operands=(value.name,),
        attributes={"dimensions": dimensions},
    )
    return [value, rows]
