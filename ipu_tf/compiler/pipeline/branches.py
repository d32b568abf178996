"""Splits a branch of a conditional by the parts of its results."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Sequence

from ipu_tf.compiler.hlo import Computation, Instruction, TupleType
from ipu_tf.compiler.passes.rewrite import rename_operands

_FREE = frozenset({"parameter", "constant", "iota"})
"""Opcodes that every part has its own copy of."""


class Branch:
    """A branch from a tuple to a tuple, whose results are in several parts.

    Instructions that several parts need run before the conditional: the branch has no side
    effects, so nothing shows that it ran. Arguments and constants do not count.

    Args:
        branch: The branch.
        arguments: The tuple of its arguments.
        parts: Numbers of the results in each part.

    Attributes:
        before: Instructions that the caller must run before the conditional.
    """

    before: tuple[Instruction, ...]

    def __init__(
        self, branch: Computation, arguments: Instruction, parts: Sequence[Sequence[int]]
    ) -> None:
        self._branch = branch
        self._by_name = branch.by_name()
        self._root = self._by_name[branch.root]
        parameters = {
            reader.name: arguments.operands[reader.attributes["tuple_index"]]
            for reader in branch
            if reader.opcode == "get-tuple-element"
            and self._by_name[reader.operands[0]].opcode == "parameter"
        }
        part_counts = collections.Counter(
            name for part in parts for name in self._needs(part, parameters)
        )
        shared = {
            name
            for name, parts_with_it in part_counts.items()
            if parts_with_it > 1
            and name not in parameters
            and self._by_name[name].opcode not in _FREE
        }
        for instruction in branch:  # A branch takes only the arrays of a shared tuple.
            if instruction.opcode == "get-tuple-element" and instruction.operands[0] in shared:
                shared.add(instruction.name)
        closure = self._closure(shared, parameters)
        early = [i for i in branch if i.name in closure and i.name not in parameters]
        names = {i.name: f"{i.name}.shared" for i in early}
        instructions = [rename_operands(i, parameters | names) for i in early]
        self.before = tuple(i.replace(name=names[i.name]) for i in instructions)
        self._arguments = parameters | {name: names[name] for name in shared}

    def part(self, numbers: Sequence[int], name: str) -> tuple[Computation, tuple[str, ...]]:
        """Returns the branch with only some of its results, and the parts of its argument.

        Args:
            numbers: Numbers of the results.
            name: Distinguishes the instructions of this part from those of others.
        """
        needs = self._needs(numbers, self._arguments)
        members = [i for i in self._branch if i.name in needs]
        operands = tuple(
            dict.fromkeys(self._arguments[i.name] for i in members if i.name in self._arguments)
        )
        types = {self._arguments[i.name]: i.type for i in members if i.name in self._arguments}
        argument = self._root.replace(
            name=f"argument.{name}",
            opcode="parameter",
            type=TupleType(tuple(types[operand] for operand in operands)),
            operands=(),
            attributes={"parameter_number": 0},
        )
        names = {i.name: f"{i.name}.{name}" for i in members}
        results = [self._root.operands[number] for number in numbers]
        body = [
            rename_operands(i, names)
            if i.name not in self._arguments
            else i.replace(
                opcode="get-tuple-element",
                operands=(argument.name,),
                computations=(),
                attributes={"tuple_index": operands.index(self._arguments[i.name])},
            )
            for i in members
        ]
        root = self._root.replace(
            name=f"{self._root.name}.{name}",
            type=TupleType(tuple(self._by_name[result].type for result in results)),
            operands=tuple(names[result] for result in results),
        )
        instructions = (argument, *(i.replace(name=names[i.name]) for i in body), root)
        return (
            Computation(
                name=f"{self._branch.name}.{name}", instructions=instructions, root=root.name
            ),
            operands,
        )

    def _needs(self, numbers: Iterable[int], parameters: Collection[str]) -> set[str]:
        """Returns the instructions that results need; of given values only the names."""
        return self._closure([self._root.operands[number] for number in numbers], parameters)

    def _closure(self, names: Iterable[str], parameters: Collection[str]) -> set[str]:
        closure: set[str] = set()
        worklist = list(names)
        while worklist:
            name = worklist.pop()
            if name not in closure:
                closure.add(name)
                worklist += () if name in parameters else self._by_name[name].operands
        return closure
