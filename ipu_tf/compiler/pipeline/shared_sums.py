"""Sums of gradients to which several stages add: each stage adds its own terms, in place.

A weight that several stages of one IPU read, as tied embeddings, has a gradient of each of them. A
stage that handed its gradient to another would let it wait there, whole, for every micro-batch
under way. So it adds to the accumulator itself, as the machine's pipelines do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ipu_tf.compiler.hlo import Computation, Instruction, Module, Parameter, TupleType
from ipu_tf.compiler.passes.rewrite import with_instructions
from ipu_tf.compiler.pipeline.assignment import Assignment
from ipu_tf.compiler.pipeline.linear_terms import Term, expression, fusion, substituted, terms


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
        self._replacements: dict[str, list[Instruction]] = {}
        self._computations: dict[str, Computation] = {}

    def divide(self, parameter: Parameter, result: int) -> None:
        """Gives stages of one IPU their own addition to an accumulator."""
        total, place = self._accumulators[parameter.name], self._by_name[self._results[result]]
        parts: set[str] = set()
        summands = terms(self._expression(place.name, parts))
        if place.opcode == "parameter" or not any(_is(term, total) for term in summands):
            return
        own_stage = self._stages[place.name]
        of_stages: dict[int, list[Term]] = {own_stage: []}
        for term in summands:
            stage = own_stage if _is(term, total) else self._stage_of(term, own_stage)
            here = self._ipus[stage] == self._ipus[own_stage]
            of_stages.setdefault(stage if here else own_stage, []).append(term)
        if len(of_stages) == 1:
            return
        for part in parts:
            self._replacements[part] = []
            del self._stages[part]
        self._add(place.name, own_stage, self._sum(place, place.name, of_stages.pop(own_stage)))
        for stage, stage_summands in of_stages.items():
            number = {"parameter_number": len(self._parameters)}
            accumulator = total.replace(name=f"{total.name}.stage{stage}", attributes=number)
            result_name = f"{place.name}.stage{stage}"
            self._add(place.name, stage, [accumulator])
            self._add(
                place.name,
                stage,
                self._sum(place, result_name, [Term(value=accumulator), *stage_summands]),
            )
            self._parameters.append(
                Parameter(
                    name=parameter.name,
                    role="held",
                    layer=parameter.layer,
                    updated_by=len(self._results),
                )
            )
            self._results.append(result_name)

    def _add(self, place: str, stage: int, instructions: Iterable[Instruction]) -> None:
        """Puts instructions of a stage in the place of an addition."""
        for instruction in instructions:
            self._replacements[place].append(instruction)
            self._stages[instruction.name] = stage

    def result(self) -> tuple[Module, Assignment]:
        """Returns the step, and the stages of its instructions."""
        if not self._replacements:
            return self._module, Assignment(stage_of=self._stages, anywhere=self._anywhere)
        root = self._by_name[self._entry.root]
        instructions = [
            one
            for instruction in self._entry
            if instruction is not root
            for one in self._replacements.get(instruction.name, [instruction])
        ]
        types = {instruction.name: instruction.type for instruction in instructions}
        new_root = root.replace(
            operands=tuple(self._results),
            type=TupleType(tuple(types[name] for name in self._results)),
        )
        entry = with_instructions(self._entry, [*instructions, new_root])
        module = self._module.replace(
            computations={
                **self._module.computations,
                **self._computations,
                self._module.entry: entry,
            },
            parameters=tuple(self._parameters),
        )
        return module, Assignment(stage_of=self._stages, anywhere=self._anywhere)

    def _expression(self, name: str, parts: set[str]) -> Term:
        """Returns a value as an expression of the values that it adds up.

        Args:
            name: Name of the value.
            parts: Gets the names of sums on the way, which nothing else reads.
        """
        value = self._by_name[name]
        if value.opcode not in ("add", "fusion"):
            return Term(value=value)
        whole = expression(value, self._by_name, self._module)
        if len(terms(whole)) == 1:
            return Term(value=value)
        parts.add(name)
        alone = {operand for operand in value.operands if len(self._read_by[operand]) == 1}
        return substituted(whole, {operand: self._expression(operand, parts) for operand in alone})

    def _stage_of(self, term: Term, own_stage: int) -> int:
        """Returns the stage of a term: that of all values it reads, else the stage of the sum."""
        stages = {self._stages.get(name, own_stage) for name in term.reads()}
        return stages.pop() if len(stages) == 1 else own_stage

    def _sum(self, like: Instruction, name: str, summands: Sequence[Term]) -> Iterator[Instruction]:
        """Yields the instructions that add up terms, the last of which has a name."""
        if any(term.operands is not None for term in summands):
            call, computation = fusion(like, name, summands)
            self._computations[computation.name] = computation
            yield call
            return
        first, *other_names = (term.value.name for term in summands)
        for number, term in enumerate(other_names, 1):
            sum_name = name if number == len(other_names) else f"{name}.{number}"
            yield like.replace(
                name=sum_name, opcode="add", operands=(first, term), computations=(), attributes={}
            )
            first = sum_name


def _is(term: Term, value: Instruction) -> bool:
    return term.operands is None and term.value.name == value.name
