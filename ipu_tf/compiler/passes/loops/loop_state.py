"""Helpers of passes over loops: parts of a state, their readers, replaced states.

They work on loops whose state is a tuple of arrays (`flat_loops`), made by a `tuple`, and whose
body and condition no other instruction calls.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Computation, Instruction, Module, TupleType, Type
from ipu_tf.compiler.passes.rewrite import rewrite, with_instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileLoop:
    """A loop of a computation.

    Attributes:
        instruction: The `while`.
        initial: The `tuple` of the state that it starts from.
        body: Its body.
        condition: Its condition.
    """

    instruction: Instruction
    initial: Instruction
    body: Computation
    condition: Computation

    @property
    def next_state(self) -> tuple[str, ...]:
        """Names of the parts of the state at the end of the body."""
        return self.body.by_name()[self.body.root].operands

    def reads_whole_state(self) -> bool:
        """Whether the body or the condition uses the state as a whole, not part by part."""
        return any(
            instruction.opcode != "get-tuple-element"
            for computation in (self.body, self.condition)
            for parameter in [parameter_of(computation)]
            for instruction in computation
            if parameter in instruction.operands
        )


def loops_of(computation: Computation, module: Module) -> Iterator[WhileLoop]:
    """Yields the loops of a computation whose state a pass may change.

    Args:
        computation: One of the programs of the module.
        module: The module.
    """
    whiles = [i for i in computation if i.opcode == "while"]
    if not whiles:
        return
    callers = collections.Counter(
        callee for c in module.computations.values() for i in c for callee in i.computations
    )
    by_name = computation.by_name()
    for instruction in whiles:
        body, condition = (module.computations[name] for name in instruction.computations)
        initial = by_name[instruction.operands[0]]
        loop = WhileLoop(instruction=instruction, initial=initial, body=body, condition=condition)
        if (
            {callers[body.name], callers[condition.name]} == {1}
            and initial.opcode == body.by_name()[body.root].opcode == "tuple"
            and not loop.reads_whole_state()
        ):
            yield loop


def parameter_of(computation: Computation) -> str:
    """Returns the name of the one parameter of a body or condition."""
    return next(i.name for i in computation if i.opcode == "parameter")


def parts_of(instructions: Iterable[Instruction], state: str) -> dict[str, int]:
    """Returns the numbers of the parts of a state that instructions take, by their names.

    Args:
        instructions: The instructions.
        state: Name of the tuple: a parameter or a loop.
    """
    return {
        i.name: i.attributes["tuple_index"]
        for i in instructions
        if i.opcode == "get-tuple-element" and i.operands[0] == state
    }


def is_used_whole(computation: Computation, name: str) -> bool:
    """Whether something other than a `get-tuple-element` uses a tuple."""
    return name == computation.root or any(
        name in i.operands and i.opcode != "get-tuple-element" for i in computation
    )


def part_types(type_: Type) -> tuple[Type, ...]:
    """Returns the types of the parts of a tuple."""
    return type_.parts if isinstance(type_, TupleType) else ()


def with_state(computation: Computation, state: TupleType) -> Computation:
    """Returns a body or condition whose parameter has another type."""
    return with_instructions(
        computation,
        [i.replace(type=state) if i.opcode == "parameter" else i for i in computation],
    )


def with_loop(
    computation: Computation,
    loop: WhileLoop,
    initial: Sequence[str],
    state: TupleType,
    after: Mapping[int, str | int],
) -> Computation:
    """Returns a computation whose loop has another state.

    Args:
        computation: The computation that holds the loop.
        loop: The loop; nothing uses its state but part by part.
        initial: Names of the parts of the state that it starts from.
        state: Type of the state.
        after: Replacements of parts that change, by their old number: the name of another
            instruction or the new number.
    """
    read_by = computation.users[loop.initial.name]
    is_own = read_by == [loop.instruction] and loop.initial.name != computation.root
    name = loop.initial.name if is_own else f"{loop.initial.name}.{loop.instruction.name}"
    new = loop.initial.replace(name=name, operands=tuple(initial), type=state)
    part_of_names = parts_of(computation, loop.instruction.name)

    def step(instruction: Instruction, by_name: Mapping[str, Instruction]) -> Instruction | str:
        del by_name
        if instruction.name in part_of_names:
            target = after.get(part_of_names[instruction.name], part_of_names[instruction.name])
            if isinstance(target, str):
                return target
            return instruction.replace(attributes={"tuple_index": target})
        return instruction

    instructions: list[Instruction] = []
    for instruction in computation:
        if instruction.name == loop.instruction.name:
            instructions += [new, instruction.replace(operands=(name,), type=state)]
        elif not (is_own and instruction.name == name):
            instructions.append(instruction)
    return rewrite(with_instructions(computation, instructions), step)
