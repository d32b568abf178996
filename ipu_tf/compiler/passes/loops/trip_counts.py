"""Finds how often loops run.

A counting loop has a condition such as `i < n`, where the body adds a constant to `i`, and `n` is a
constant or passes through the loop unchanged. Conditions joined by `and` end the loop when the
first of them fails. The gradient of a loop runs as often as the loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np

from ipu_tf.compiler.hlo import Instruction, Module
from ipu_tf.compiler.passes.caller_constants import ConstantValue, kept_parts, known_values
from ipu_tf.compiler.passes.rewrite import programs, with_instructions

Count: TypeAlias = "int | tuple[int, ...]"
"""A number, or one for each iteration of the loop around it."""

GRADIENT_OF: Final = "gradient_of"
"""Attribute of a loop that is the gradient of another loop: the body of the other loop."""


def run(module: Module) -> Module:
    """Returns the module with the attribute "trip_count" on every `while` whose count is known.

    If the count differs between the iterations of an enclosing loop, "mean_trip_count" is the total
    and the number of these iterations. If only some of the conditions are counters,
    "max_trip_count" is a bound.
    """
    computations = dict(module.computations)
    with_loops = [
        name
        for name in programs(module)
        if any(instruction.opcode == "while" for instruction in computations[name])
    ]
    if not with_loops:
        return module
    counter = _Counter(module=module, values=known_values(module))
    for name in with_loops:
        computations[name] = with_instructions(computations[name], counter.with_counts(name))
    return module.replace(computations=computations)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Counter:
    """Counts the loops of a module, outer ones first.

    Attributes:
        module: The module.
        values: Known values of its programs.
        outer: The loops of known length and their lengths, by their bodies.
        counts_of_bodies: The attributes of loops found so far, by their bodies.
    """

    module: Module
    values: Mapping[str, Mapping[str, ConstantValue]]
    outer: dict[str, tuple[_Loop, int]] = dataclasses.field(default_factory=dict)
    counts_of_bodies: dict[str, Mapping[str, Count]] = dataclasses.field(default_factory=dict)

    def with_counts(self, name: str) -> list[Instruction]:
        """Returns the instructions of a computation, its loops with their counts."""
        instructions: list[Instruction] = []
        computation = self.module.computations[name]
        by_name = computation.by_name()
        numbers: dict[str, Count] = {}
        loops: dict[str, tuple[_Loop, int]] = {}
        for instruction in computation:
            number = self._number(instruction, name, numbers)
            if instruction.opcode == "get-tuple-element" and instruction.operands[0] in loops:
                # The gradient of a loop counts up to the counter of the loop.
                loop, count = loops[instruction.operands[0]]
                number = loop.final(instruction.attributes["tuple_index"], count)
            if number is not None:
                numbers[instruction.name] = number
            if instruction.opcode == "while":
                loop = self._loop(instruction, by_name, numbers)
                counts = loop.counts() or self.counts_of_bodies.get(
                    instruction.attributes.get(GRADIENT_OF, ""), {}
                )
                instruction = instruction.replace(attributes={**instruction.attributes, **counts})
                self.counts_of_bodies[instruction.computations[0]] = counts
                trips = counts.get("trip_count")
                if isinstance(trips, int):
                    loops[instruction.name] = loop, trips
                    self.outer[instruction.computations[0]] = loop, trips
            instructions.append(instruction)
        return instructions

    def _number(
        self, instruction: Instruction, name: str, numbers: Mapping[str, Count]
    ) -> Count | None:
        """Returns the integer value of an instruction; None if it is unknown or no integer."""
        number = _integer(self.values[name][instruction.name])
        if number is not None or not instruction.operands:
            return number
        if instruction.opcode in ("reshape", "copy"):
            return numbers.get(instruction.operands[0])
        if instruction.opcode == "dynamic-slice" and name in self.outer:
            # A table of numbers: every iteration of the enclosing loop reads one of them.
            table = self.values[name][instruction.operands[0]]
            index = self.module.computations[name].by_name()[instruction.operands[1]]
            loop, count = self.outer[name]
            if (
                isinstance(table, np.ndarray)
                and table.shape == (count,)
                and loop.is_number_of_iteration(index)
            ):
                return tuple(map(int, table)) if table.dtype.kind in "iu" else None
        return None

    def _loop(
        self,
        instruction: Instruction,
        by_name: Mapping[str, Instruction],
        numbers: Mapping[str, Count],
    ) -> _Loop:
        body, condition = (self.module.computations[name] for name in instruction.computations)
        initial = by_name[instruction.operands[0]]
        state = initial.operands if initial.opcode == "tuple" else ()
        return _Loop(
            initial=tuple(numbers.get(name) for name in state),
            invariant_parts=kept_parts(body),
            body=body.by_name(),
            result=body.by_name()[body.root],
            condition=condition.by_name(),
            condition_root=condition.root,
            module=self.module,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """A loop whose state is a tuple.

    Attributes:
        initial: The parts of the state before the loop; None for a part that is no known integer.
        invariant_parts: The parts that its body does not change.
        body: Its body's instructions.
        result: The body's root.
        condition: Its condition's instructions.
        condition_root: Name of the root among them.
        module: The module.
    """

    initial: tuple[Count | None, ...]
    invariant_parts: frozenset[int]
    body: Mapping[str, Instruction]
    result: Instruction
    condition: Mapping[str, Instruction]
    condition_root: str
    module: Module

    def counts(self) -> dict[str, Count]:
        """Returns the attributes that say how often it runs."""
        counts = [self._trip_count(term) for term in self._conjuncts()]
        single = [count for count in counts if isinstance(count, int)]
        if len(counts) == 1 and isinstance(counts[0], tuple):
            return {"mean_trip_count": (sum(counts[0]), len(counts[0]))}
        if not single:
            return {}
        return {"trip_count" if len(single) == len(counts) else "max_trip_count": min(single)}

    def final(self, index: int, trip_count: int) -> int | None:
        """Returns the value of a part of the state after the loop; None if it is not known."""
        first = self.initial[index] if self.initial else None
        step = 0 if index in self.invariant_parts else self._step(index)
        return first + trip_count * step if isinstance(first, int) and step is not None else None

    def is_number_of_iteration(self, value: Instruction) -> bool:
        """Whether a value in the body counts its iterations, from 0."""
        index = _part(value)
        if index is None or not self.initial or not self._is_part_of_body(value, index):
            return False
        return self.initial[index] == 0 and self._step(index) == 1

    def _conjuncts(self) -> list[Instruction]:
        """Returns the terms that must all be true for the loop to continue."""
        worklist, terms = [self.condition[self.condition_root]], []
        while worklist:
            term = worklist.pop()
            if term.opcode == "and":
                worklist += [self.condition[name] for name in term.operands]
            elif term.opcode in ("reshape", "copy"):
                worklist.append(self.condition[term.operands[0]])
            elif (first := self._first_of_two(term)) is not None:
                worklist.append(first)
                terms.append(term)
            else:
                terms.append(term)
        return terms

    def _first_of_two(self, term: Instruction) -> Instruction | None:
        """Returns `a` of AutoGraph's form of `a and b`: a conditional that is False unless `a`."""
        index = _part(term)
        source = self.condition[term.operands[0]] if index is not None else term
        if source.opcode != "conditional" or len(source.computations) != 2:
            return None
        branch = self.module.computations[source.computations[1]]
        instructions = branch.by_name()
        result = instructions[branch.root]
        if index is not None and result.opcode == "tuple":
            result = instructions[result.operands[index]]
        literal = result.attributes.get("literal")
        is_false = result.opcode == "constant" and literal is not None and not np.any(literal)
        return self.condition[source.operands[0]] if is_false else None

    def _trip_count(self, term: Instruction) -> Count | None:
        """Returns how often a term of the condition is true; None if it is not known."""
        direction = term.attributes.get("comparison_direction")
        if term.opcode != "compare" or direction not in _MIRRORED:
            return None
        left, right = (self.condition[name] for name in term.operands)
        if self._step_of(left) is None:
            left, right, direction = right, left, _MIRRORED[direction]
        first, step, limit = self._initial_of(left), self._step_of(left), self._invariant_of(right)
        if not isinstance(first, int) or step is None or limit is None:
            return None
        if isinstance(limit, int):
            return _iterations(first, step, limit, direction)
        each = [_iterations(first, step, one, direction) for one in limit]
        counts = tuple(count for count in each if count is not None)
        return counts if len(counts) == len(each) else None

    def _initial_of(self, value: Instruction) -> Count | None:
        index = _part(value)
        return self.initial[index] if index is not None and self.initial else None

    def _step_of(self, value: Instruction) -> int | None:
        index = _part(value)
        return None if index is None else self._step(index)

    def _invariant_of(self, value: Instruction) -> Count | None:
        """Returns the value of a constant, or of a part of the state that the body keeps."""
        index = _part(value)
        if index is None:
            return _integer(value.attributes.get("literal"))
        return self._initial_of(value) if index in self.invariant_parts else None

    def _is_part_of_body(self, value: Instruction, index: int) -> bool:
        return _part(value) == index and self.body[value.operands[0]].opcode == "parameter"

    def _step(self, index: int) -> int | None:
        """Returns the number that the body adds to a part of the state."""
        if self.result.opcode != "tuple":
            return None
        new = self.body[self.result.operands[index]]
        if new.opcode not in ("add", "subtract"):
            return None
        left, right = (self.body[name] for name in new.operands)
        if new.opcode == "add" and self._is_part_of_body(right, index):
            left, right = right, left
        amount = _integer(right.attributes.get("literal"))
        if amount is None or not self._is_part_of_body(left, index):
            return None
        return amount if new.opcode == "add" else -amount


_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def _iterations(first: int, step: int, limit: int, direction: str) -> int | None:
    """Returns how often a counter is below (or above) a limit; None if that never ends."""
    if direction in ("GT", "GE"):
        first, step, limit = -first, -step, -limit
    if direction in ("LE", "GE"):
        limit += 1
    if first >= limit:
        return 0
    return -((first - limit) // step) if step > 0 else None


def _part(value: Instruction) -> int | None:
    """Returns the number of the tuple's part that a value is."""
    is_part = value.opcode == "get-tuple-element"
    return value.attributes["tuple_index"] if is_part else None


def _integer(value: ConstantValue) -> int | None:
    if not isinstance(value, np.ndarray | np.generic) or value.size != 1:
        return None
    return int(value.flat[0]) if value.dtype.kind in "iu" else None
