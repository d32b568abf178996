"""Finds how often loops run.

A loop that counts has a condition such as `i < n` where the body adds a constant to `i`, and `n` is
a constant or is carried through the loop unchanged. Conditions joined by `and` end the loop at the
first that fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import programs, with_instructions


def run(module: Module) -> Module:
    """Returns the module whose `while`s have the attribute "trip_count" where it is known.

    Where only some of the conditions are counters, "max_trip_count" is a bound.
    """
    computations = dict(module.computations)
    for name in programs(module):
        computation = computations[name]
        if any(instruction.opcode == "while" for instruction in computation):
            computations[name] = with_instructions(computation, _counted(computation, module))
    return module.replace(computations=computations)


def _counted(computation: Computation, module: Module) -> list[Instruction]:
    """Returns the instructions of a computation, its loops with their counts."""
    counted: list[Instruction] = []
    defined = computation.by_name()
    numbers: dict[str, int] = {}
    loops: dict[str, tuple[_Loop, int]] = {}
    for instruction in computation:
        number = _integer(instruction)
        if instruction.opcode == "get-tuple-element" and instruction.operands[0] in loops:
            # The gradient of a loop counts up to the counter of the loop.
            loop, count = loops[instruction.operands[0]]
            number = loop.final(instruction.attributes["tuple_index"], count)
        if number is not None:
            numbers[instruction.name] = number
        if instruction.opcode == "while":
            loop = _loop(instruction, defined, numbers, module)
            instruction = _with_count(instruction, loop)
            if "trip_count" in instruction.attributes:
                loops[instruction.name] = loop, instruction.attributes["trip_count"]
        counted.append(instruction)
    return counted


def _loop(
    instruction: Instruction,
    defined: Mapping[str, Instruction],
    numbers: Mapping[str, int],
    module: Module,
) -> _Loop:
    body, condition = (module.computations[name] for name in instruction.computations)
    initial = defined[instruction.operands[0]]
    state = initial.operands if initial.opcode == "tuple" else ()
    return _Loop(
        initial=tuple(numbers.get(name) for name in state),
        body=body.by_name(),
        result=body.by_name()[body.root],
        condition=condition.by_name(),
        condition_root=condition.root,
    )


def _with_count(instruction: Instruction, loop: _Loop) -> Instruction:
    counts = [loop.trip_count(term) for term in loop.conjuncts()]
    known = [count for count in counts if count is not None]
    if not known:
        return instruction
    key = "trip_count" if len(known) == len(counts) else "max_trip_count"
    return instruction.replace(attributes={**instruction.attributes, key: min(known)})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """A loop whose state is a tuple.

    Attributes:
        initial: The parts of the state before it, None for those that are not known integers.
        body: Its body's instructions.
        result: The body's root.
        condition: Its condition's instructions.
        condition_root: Name of the root among them.
    """

    initial: tuple[int | None, ...]
    body: Mapping[str, Instruction]
    result: Instruction
    condition: Mapping[str, Instruction]
    condition_root: str

    def conjuncts(self) -> list[Instruction]:
        """Returns the terms that all have to be true for the loop to go on."""
        waiting, terms = [self.condition[self.condition_root]], []
        while waiting:
            term = waiting.pop()
            if term.opcode == "and":
                waiting += [self.condition[name] for name in term.operands]
            elif term.opcode in ("reshape", "copy"):
                waiting.append(self.condition[term.operands[0]])
            else:
                terms.append(term)
        return terms

    def trip_count(self, term: Instruction) -> int | None:
        """Returns how often a term of the condition is true, None where that is not known."""
        direction = term.attributes.get("comparison_direction")
        if term.opcode != "compare" or direction not in _MIRRORED:
            return None
        left, right = (self.condition[name] for name in term.operands)
        if self._step_of(left) is None:
            left, right, direction = right, left, _MIRRORED[direction]
        first, step, limit = self._initial_of(left), self._step_of(left), self._invariant_of(right)
        if first is None or step is None or limit is None:
            return None
        if direction in ("GT", "GE"):
            first, step, limit = -first, -step, -limit
        if direction in ("LE", "GE"):
            limit += 1
        if first >= limit:
            return 0
        return -((first - limit) // step) if step > 0 else None

    def final(self, index: int, trip_count: int) -> int | None:
        """Returns what a part of the state is after the loop, None where that is not known."""
        first = self.initial[index] if self.initial else None
        step = 0 if self._is_kept(index) else self._step(index)
        return None if first is None or step is None else first + trip_count * step

    def _initial_of(self, value: Instruction) -> int | None:
        index = _part(value)
        return self.initial[index] if index is not None and self.initial else None

    def _step_of(self, value: Instruction) -> int | None:
        index = _part(value)
        return None if index is None else self._step(index)

    def _invariant_of(self, value: Instruction) -> int | None:
        """Returns the value of a constant, or of a part of the state that the body leaves alone."""
        index = _part(value)
        if index is None:
            return _integer(value)
        return self._initial_of(value) if self._is_kept(index) else None

    def _next(self, index: int) -> Instruction | None:
        """Returns what the body makes of a part of the state."""
        is_tuple = self.result.opcode == "tuple"
        return self.body[self.result.operands[index]] if is_tuple else None

    def _is_kept(self, index: int) -> bool:
        new = self._next(index)
        return new is not None and self._is_part_of_body(new, index)

    def _is_part_of_body(self, value: Instruction, index: int) -> bool:
        return _part(value) == index and self.body[value.operands[0]].opcode == "parameter"

    def _step(self, index: int) -> int | None:
        """Returns what the body adds to a part of the state."""
        new = self._next(index)
        if new is None or new.opcode not in ("add", "subtract"):
            return None
        left, right = (self.body[name] for name in new.operands)
        if new.opcode == "add" and self._is_part_of_body(right, index):
            left, right = right, left
        amount = _integer(right)
        if amount is None or not self._is_part_of_body(left, index):
            return None
        return amount if new.opcode == "add" else -amount


_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def _part(value: Instruction) -> int | None:
    """Returns which part of a tuple a value is."""
    is_part = value.opcode == "get-tuple-element"
    return value.attributes["tuple_index"] if is_part else None


def _integer(value: Instruction) -> int | None:
    literal = value.attributes.get("literal")
    if value.opcode != "constant" or literal is None or literal.size != 1:
        return None
    return int(literal.flat[0]) if literal.dtype.kind in "iu" else None
