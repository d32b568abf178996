"""Sums of gradients to which several stages add: each stage adds its own terms, in place.

A weight that several stages of one IPU read, as tied embeddings, has a gradient of each of them. A
stage that handed its gradient to another would let it wait there, whole, for every micro-batch
under way. So it adds to the accumulator itself, as the machine's pipelines do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction, Module, Parameter, TupleType
from ipu_tf.compiler.passes.rewrite import with_instructions
from ipu_tf.compiler.pipeline.assignment import Assignment


def added_by_stages(
    module: Module, assignment: Assignment, ipus: Sequence[int]
) -> tuple[Module, Assignment]:
    """Returns a step whose stages add their gradients to the accumulators of their IPU.

    A further stage gets the accumulator as a parameter with the role "held": it is the memory of
    the accumulator itself.

    Args:
        module: The step, with accumulators.
        assignment: Stages of its instructions.
        ipus: IPU of each stage.
    """
    sums = _SharedSums(module, assignment, ipus)
    for parameter in module.parameters:
        if parameter.role == "accumulator" and parameter.updated_by is not None:
            sums.divide(parameter, parameter.updated_by)
    return sums.result()


class _SharedSums:
    """Divides the additions to accumulators by stages."""

    def __init__(self, module: Module, assignment: Assignment, ipus: Sequence[int]) -> None:
        self._module, self._ipus = module, ipus
        self._entry = module.entry_computation
        self._by_name = self._entry.by_name()
        self._read_by = self._entry.users
        self._stages = dict(assignment.stage_of)
        self._anywhere = assignment.anywhere
        self._accumulators = {
            module.parameters[instruction.attributes["parameter_number"]].name: instruction
            for instruction in self._entry
            if instruction.opcode == "parameter"
        }
        self._parameters = list(module.parameters)
        self._results = list(self._by_name[self._entry.root].operands)
        self._changed: dict[str, list[Instruction]] = {}

    def divide(self, parameter: Parameter, result: int) -> None:
        """Gives stages of one IPU their own addition to an accumulator."""
        total, place = self._accumulators[parameter.name], self._by_name[self._results[result]]
        parts: set[str] = set()
        terms = list(self._terms(place.name, parts))
        if total.name not in terms or place.opcode == "parameter":
            return
        own = self._stages[place.name]
        of_stages: dict[int, list[str]] = {own: []}
        for name in terms:
            stage = own if name == total.name else self._stages.get(name, own)
            here = self._ipus[stage] == self._ipus[own]
            of_stages.setdefault(stage if here else own, []).append(name)
        if len(of_stages) == 1:
            return
        for part in parts:
            self._changed[part] = []
            del self._stages[part]
        self._add(place.name, own, self._sum(place, place.name, of_stages.pop(own)))
        for stage, names in of_stages.items():
            held, added = f"{total.name}.stage{stage}", f"{place.name}.stage{stage}"
            number = {"parameter_number": len(self._parameters)}
            self._add(place.name, stage, [total.replace(name=held, attributes=number)])
            self._add(place.name, stage, self._sum(place, added, [held, *names]))
            self._parameters.append(
                Parameter(
                    name=parameter.name,
                    role="held",
                    layer=parameter.layer,
                    updated_by=len(self._results),
                )
            )
            self._results.append(added)

    def _add(self, place: str, stage: int, instructions: Iterable[Instruction]) -> None:
        """Puts instructions of a stage in the place of an addition."""
        for instruction in instructions:
            self._changed[place].append(instruction)
            self._stages[instruction.name] = stage

    def result(self) -> tuple[Module, Assignment]:
        """Returns the step, and the stages of its instructions."""
        if not self._changed:
            return self._module, Assignment(stage_of=self._stages, anywhere=self._anywhere)
        root = self._by_name[self._entry.root]
        instructions = [
            one
            for instruction in self._entry
            if instruction is not root
            for one in self._changed.get(instruction.name, [instruction])
        ]
        types = {instruction.name: instruction.type for instruction in instructions}
        new_root = root.replace(
            operands=tuple(self._results),
            type=TupleType(tuple(types[name] for name in self._results)),
        )
        entry = with_instructions(self._entry, [*instructions, new_root])
        module = self._module.replace(
            computations={**self._module.computations, self._module.entry: entry},
            parameters=tuple(self._parameters),
        )
        return module, Assignment(stage_of=self._stages, anywhere=self._anywhere)

    def _terms(self, name: str, parts: set[str]) -> Iterator[str]:
        """Yields the names of the values of which a value is the sum.

        Args:
            name: Name of the value.
            parts: Gets the names of sums on the way, which nothing else reads.
        """
        value = self._by_name[name]
        inner = _sum_of_operands(value, self._module)
        if inner is None:
            yield name
            return
        parts.add(name)
        for operand in inner:
            alone = len(self._read_by[operand]) == 1
            yield from self._terms(operand, parts) if alone else (operand,)

    def _sum(self, like: Instruction, name: str, terms: Sequence[str]) -> Iterator[Instruction]:
        """Yields the additions of terms, the last of which has a name."""
        first, *others = terms
        for number, term in enumerate(others, 1):
            last = number == len(others)
            added = name if last else f"{name}.{number}"
            yield like.replace(
                name=added, opcode="add", operands=(first, term), computations=(), attributes={}
            )
            first = added


def _sum_of_operands(value: Instruction, module: Module) -> tuple[str, ...] | None:
    """Returns the operands of which an instruction is the plain sum; None for any other."""
    if value.opcode == "add":
        return value.operands
    if value.opcode != "fusion":
        return None
    (name,) = value.computations
    inside = module.computations[name]
    by_name: Mapping[str, Instruction] = inside.by_name()
    found: list[str] = []
    waiting = [inside.root]
    while waiting:
        one = by_name[waiting.pop()]
        if one.opcode == "add" and one.type == value.type:
            waiting += one.operands[::-1]
        elif one.opcode == "parameter" and one.type == value.type:
            found.append(value.operands[one.attributes["parameter_number"]])
        else:
            return None
    return tuple(found)
