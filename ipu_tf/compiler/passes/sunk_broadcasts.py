"""Moves a broadcast into a loop that only reads slices of it.

A loop that reads a stack of equal rows needs one row. So its state holds the broadcast's operand
instead of the broadcast, and a slice of the broadcast, now within the loop, is the operand itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.compiler.hlo import Computation, Instruction, Module, TupleType
from ipu_tf.compiler.passes import dead_code, identities
from ipu_tf.compiler.passes.caller_constants import kept_parts
from ipu_tf.compiler.passes.loops.loop_state import (
    WhileLoop,
    is_used_whole,
    loops_of,
    parameter_of,
    part_types,
    parts_of,
    with_loop,
    with_state,
)
from ipu_tf.compiler.passes.rewrite import programs, with_instructions


def run(module: Module) -> Module:
    """Returns the module whose loops hold no broadcasts that they only slice."""
    while (sunk := _with_one_sunk(module)) is not None:
        # A slice in an outer loop may be a broadcast that an inner one slices.
        module = dead_code.run(identities.run(sunk))
    return module


def _with_one_sunk(module: Module) -> Module | None:
    """Returns the module with the broadcasts of one more loop in its body, or None."""
    for name in programs(module):
        computation = module.computations[name]
        for loop in loops_of(computation, module):
            broadcasts = _sliced_broadcasts(computation, loop, module)
            if broadcasts:
                computations = _with_sources(computation, loop, broadcasts)
                return module.replace(computations={**module.computations, **computations})
    return None


def _sliced_broadcasts(
    computation: Computation, loop: WhileLoop, module: Module
) -> dict[int, Instruction]:
    """Returns the broadcasts in a loop's state that it only slices, by their parts of the state."""
    if is_used_whole(computation, loop.instruction.name):
        return {}
    by_name = computation.by_name()
    return {
        part: broadcast
        for part, name in enumerate(loop.initial.operands)
        if (broadcast := by_name[name]).opcode == "broadcast"
        and _is_only_sliced(loop, part, broadcast, module)
    }


def _is_only_sliced(loop: WhileLoop, part: int, broadcast: Instruction, module: Module) -> bool:
    """Whether a loop leaves a part of its state unchanged and reads only equal slices of it.

    Args:
        loop: The loop.
        part: The part.
        broadcast: The broadcast that the part holds.
        module: The module.
    """
    if part not in kept_parts(loop.body):
        return False
    if part in parts_of(loop.condition, parameter_of(loop.condition)).values():
        return False
    inner = {
        each.initial.name: each
        for each in loops_of(loop.body, module)
        if not is_used_whole(loop.body, each.instruction.name)
    }
    read_by = loop.body.users
    for name, number in parts_of(loop.body, parameter_of(loop.body)).items():
        for reader in read_by[name] if number == part else ():
            if reader.name in inner and read_by[reader.name] == [inner[reader.name].instruction]:
                places = [n for n, operand in enumerate(reader.operands) if operand == name]
                if all(_is_only_sliced(inner[reader.name], n, broadcast, module) for n in places):
                    continue
            elif reader.name == loop.body.root or _is_slice(reader, name, broadcast):
                continue
            return False
    return True


def _is_slice(reader: Instruction, name: str, broadcast: Instruction) -> bool:
    """Whether a reader takes slices along axes of a broadcast in which all elements are equal."""
    if reader.opcode != "dynamic-slice" or reader.operands.index(name) != 0:
        return False
    return identities.is_uniform_slice(reader, broadcast)


def _with_sources(
    computation: Computation, loop: WhileLoop, broadcasts: Mapping[int, Instruction]
) -> dict[str, Computation]:
    """Returns the computations that change when broadcasts move into a loop.

    Args:
        computation: The computation that holds the loop.
        loop: The loop.
        broadcasts: The broadcasts, by their parts of the state.
    """
    by_name = computation.by_name()
    sources = {part: by_name[b.operands[0]] for part, b in broadcasts.items()}
    initial = list(loop.initial.operands)
    types = list(part_types(loop.instruction.type))
    for part, source in sources.items():
        initial[part], types[part] = source.name, source.type
    state = TupleType(tuple(types))
    after = {part: broadcast.name for part, broadcast in broadcasts.items()}
    return {
        computation.name: with_loop(computation, loop, initial, state, after),
        loop.body.name: _body(loop.body, broadcasts, state),
        loop.condition.name: with_state(loop.condition, state),
    }


def _body(
    body: Computation, broadcasts: Mapping[int, Instruction], state: TupleType
) -> Computation:
    """Returns a body that broadcasts parts of its state."""
    part_of_names = parts_of(body, parameter_of(body))
    instructions: list[Instruction] = []
    for instruction in with_state(body, state):
        broadcast = broadcasts.get(part_of_names.get(instruction.name, -1))
        if broadcast is not None:
            source = f"{instruction.name}.source"
            type_ = state.parts[part_of_names[instruction.name]]
            instructions.append(instruction.replace(name=source, type=type_))
            instruction = broadcast.replace(name=instruction.name, operands=(source,))
        elif instruction.name == body.root:
            operands = [
                f"{name}.source" if part in broadcasts else name
                for part, name in enumerate(instruction.operands)
            ]
            instruction = instruction.replace(operands=tuple(operands), type=state)
        instructions.append(instruction)
    return with_instructions(body, instructions)
