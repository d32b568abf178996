"""Drops the parts of loops' states that nothing needs.

A part is needed if something reads it after the loop, in the condition, for a side effect in the
body, or in the body for another needed part. A stack that no gradient reads is not needed.
"""

from __future__ import annotations

from collections.abc import Collection

from ipu_tf.compiler.hlo import Computation, Instruction, Module, TupleType
from ipu_tf.compiler.passes import dead_code
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
from ipu_tf.compiler.passes.rewrite import (
    has_side_effect,
    programs,
    with_instructions,
    with_side_effects,
)


def run(module: Module) -> Module:
    """Returns the module whose loops hold only needed parts."""
    effects = with_side_effects(module)
    while (smaller := _smaller(module, effects)) is not module:
        # A dropped part may have been the last reader of a part of another loop.
        module = dead_code.run(smaller)
    return module


def _smaller(module: Module, effects: Collection[str]) -> Module:
    """Returns the module without its currently dead parts; the same module if it has none."""
    for name in programs(module):
        for loop in loops_of(module.computations[name], module):
            computation = module.computations[name]
            if is_used_whole(computation, loop.instruction.name):
                continue
            live = _LiveParts(computation, loop, effects)
            if len(live.parts) < len(loop.initial.operands):
                smaller = _with_parts(computation, loop, live)
                module = module.replace(computations={**module.computations, **smaller})
    return module


class _LiveParts:
    """The needed parts and instructions of a loop.

    Args:
        computation: The computation that holds the loop.
        loop: The loop.
        effects: Names of the computations with side effects.

    Attributes:
        parts: The parts of its state, in order.
        names: The instructions of its body.
    """

    def __init__(self, computation: Computation, loop: WhileLoop, effects: Collection[str]) -> None:
        parts = {
            *parts_of(computation, loop.instruction.name).values(),
            *parts_of(loop.condition, parameter_of(loop.condition)).values(),
        }
        part_of_names = parts_of(loop.body, parameter_of(loop.body))
        self.names = {parameter_of(loop.body), loop.body.root}
        self.names |= {i.name for i in loop.body if has_side_effect(i, effects)}
        size = -1
        while size != len(parts):
            size = len(parts)
            self.names |= {loop.next_state[part] for part in parts}
            for instruction in reversed(loop.body.instructions):
                if instruction.name in self.names and instruction.name != loop.body.root:
                    self.names.update(instruction.operands)
            parts |= {part for name, part in part_of_names.items() if name in self.names}
        self.parts = sorted(parts)


def _with_parts(
    computation: Computation, loop: WhileLoop, live: _LiveParts
) -> dict[str, Computation]:
    """Returns the computations that change when a loop holds fewer parts."""
    types = part_types(loop.instruction.type)
    state = TupleType(tuple(types[part] for part in live.parts))
    initial = [loop.initial.operands[part] for part in live.parts]
    numbers = {part: number for number, part in enumerate(live.parts)}
    condition = loop.condition
    return {
        computation.name: with_loop(computation, loop, initial, state, numbers),
        loop.body.name: _renumbered(_body(loop.body, live, state), numbers, state),
        condition.name: _renumbered(condition, numbers, state),
    }


def _body(body: Computation, live: _LiveParts, state: TupleType) -> Computation:
    """Returns a body without unneeded instructions; it still takes parts by their old numbers."""
    instructions: list[Instruction] = []
    for instruction in body:
        if instruction.name == body.root:
            operands = tuple(instruction.operands[part] for part in live.parts)
            instruction = instruction.replace(operands=operands, type=state)
        if instruction.name in live.names:
            instructions.append(instruction)
    return with_instructions(body, instructions)


def _renumbered(computation: Computation, numbers: dict[int, int], state: TupleType) -> Computation:
    """Returns a body or condition that takes parts by their new numbers."""
    part_of_names = parts_of(computation, parameter_of(computation))
    return with_instructions(
        with_state(computation, state),
        [
            i.replace(attributes={"tuple_index": numbers[part_of_names[i.name]]})
            if i.name in part_of_names
            else i
            for i in with_state(computation, state)
        ],
    )
