"""Cuts a step into the modules of its stages, and lists the values that cross between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module, Parameter, TupleType
from ipu_tf.compiler.hlo.module import Role, Type
from ipu_tf.compiler.passes.rewrite import SOURCES, with_instructions
from ipu_tf.compiler.pipeline.assignment import Assignment
from ipu_tf.compiler.pipeline.fifo import Fifo
from ipu_tf.tile_program.device_program import Crossing
from ipu_tf.tile_program.phase import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A step that is cut into stages.

    Attributes:
        module: The step, with accumulators where it accumulates.
        assignment: Stages of its instructions.
        crossings: Values that stages hand to each other, in the order they are made.
    """

    module: Module
    assignment: Assignment
    crossings: tuple[Crossing, ...]


def cut(module: Module, assignment: Assignment) -> Cut:
    """Returns a step with a list of the values that cross between its stages."""
    entry = module.entry_computation
    by_name = entry.by_name()
    crossings: dict[tuple[str, int], Crossing] = {}
    for reader in entry:
        if reader.name == entry.root:
            continue
        stage = assignment.stage_of.get(reader.name)
        for name in reader.operands:
            source = assignment.stage_of.get(name)
            if source is None or stage is None or source == stage:
                continue
            value = by_name[name]
            phase = _crossing_phase(value, reader)
            crossing = crossings.get((name, stage))
            if crossing is None or _PHASES.index(phase) < _PHASES.index(crossing.phase):
                crossings[name, stage] = Crossing(
                    name=name,
                    layer=value.layer,
                    source=source,
                    destination=stage,
                    phase=phase,
                    bytes=value.type.bytes,
                    is_variable=value.opcode == "parameter",
                )
    return Cut(module=module, assignment=assignment, crossings=tuple(crossings.values()))


_PHASES: tuple[Phase, ...] = ("forward", "backward", "update")


def _crossing_phase(value: Instruction, reader: Instruction) -> Phase:
    """Returns the phase of a step in which a value crosses: the phase that makes it, if its reader
    runs before the update."""
    if reader.phase == "update" or value.phase == "update":
        return "update"
    return "forward" if value.opcode == "parameter" else value.phase


def stage_module(step: Cut, stage: int, fifos: Sequence[Fifo]) -> Module:
    """Returns the module of one stage.

    It has the stage's instructions in their order; values from other stages are parameters,
    values for other stages are results. FIFOs are parameters that nothing reads: memory.

    Args:
        step: The step.
        stage: The stage.
        fifos: The FIFOs of this stage.
    """
    return _StageModule(step, stage).build(fifos)


class _StageModule:
    """Builds the module of one stage."""

    def __init__(self, step: Cut, stage: int) -> None:
        self._module = step.module
        self._entry = step.module.entry_computation
        self._by_name = self._entry.by_name()
        self._results = _results(self._entry)
        self._assignment = step.assignment
        self._stage = stage
        self._inputs = {c.name for c in step.crossings if c.destination == stage}
        self._outputs = {c.name for c in step.crossings if c.source == stage}
        self._names: set[str] = set()
        self._instructions: list[Instruction] = []
        self._parameters: list[Parameter] = []

    def build(self, fifos: Sequence[Fifo]) -> Module:
        """Returns the module."""
        names = self._names = self._instruction_names()
        mine = [n for n, name in enumerate(self._results) if self._is_mine(name, names)]
        results = [self._results[number] for number in mine]
        numbers = {number: place for place, number in enumerate(mine)}
        sent_names = sorted(self._outputs.difference(results))
        links = {len(results) + position for position in range(len(sent_names))}
        for instruction in self._entry:
            if instruction.name in names:
                self._add(instruction, numbers)
        for fifo in fifos:
            self._add_fifo(fifo)
        types = tuple(self._by_name[name].type for name in (*results, *sent_names))
        root = Instruction(
            name=self._entry.root,
            opcode="tuple",
            type=TupleType(types),
            operands=(*results, *sent_names),
            phase="update",
        )
        computation = Computation(
            name=self._entry.name, instructions=(*self._instructions, root), root=root.name
        )
        return Module(
            name=f"{self._module.name}/stage {self._stage}",
            computations={**self._module.computations, self._entry.name: computation},
            entry=self._module.entry,
            parameters=tuple(self._parameters),
            links=frozenset(links),
        )

    def _instruction_names(self) -> set[str]:
        """Returns the names of the module's instructions: the stage's own, and their operands."""
        root = self._by_name[self._entry.root]
        own_names = {
            name
            for name, stage in self._assignment.stage_of.items()
            if stage == self._stage and name != root.name
        }
        if self._stage == 0:  # Results that belong nowhere else.
            own_names |= {n for n in self._results if n not in self._assignment.stage_of}
        closure, worklist = set(own_names), list(own_names)
        while worklist:
            name = worklist.pop()
            if name in self._inputs:
                continue
            for operand in self._by_name[name].operands:
                if operand not in closure:
                    closure.add(operand)
                    worklist.append(operand)
        return closure | self._inputs

    def _is_mine(self, name: str, names: Set[str]) -> bool:
        stage = self._assignment.stage_of.get(name, 0)
        return name in names and stage == self._stage

    def _add(self, instruction: Instruction, numbers: Mapping[int, int]) -> None:
        name = instruction.name
        if name in self._inputs:
            self._add_parameter(name, instruction.type, Parameter(name=name, role="link"))
        elif instruction.opcode != "parameter":
            after = tuple(earlier for earlier in instruction.after if earlier in self._names)
            self._instructions.append(instruction.replace(after=after))
        else:
            original = self._module.parameters[instruction.attributes["parameter_number"]]
            number = original.updated_by
            if number is not None:
                number = numbers.get(number)
            role: Role = original.role
            parameter = Parameter(
                name=original.name,
                role=role,
                layer=original.layer,
                updated_by=number,
            )
            self._add_parameter(name, instruction.type, parameter)

    def _add_fifo(self, fifo: Fifo) -> None:
        value = self._by_name[fifo.value]
        for index, array in enumerate(_arrays(value.type)):
            name = f"{fifo.value}.fifo" + (f".{index}" if index else "")
            self._add_parameter(
                name,
                Array(array.dtype, (fifo.depth, *array.dims)),
                Parameter(name=name, role="fifo", layer=value.layer),
            )

    def _add_parameter(self, name: str, type_: Type, parameter: Parameter) -> None:
        number = len(self._parameters)
        self._parameters.append(parameter)
        self._instructions.append(
            Instruction(
                name=name, opcode="parameter", type=type_, attributes={"parameter_number": number}
            )
        )


def prepared(module: Module) -> Module:
    """Returns a simplified step in the form that the rest of this package expects.

    Its result is a tuple, of one part if it was none. An instruction that reads gradients is not in
    the forward pass: a step that accumulates in its own variables adds to them in the backward
    pass. An operand of the forward pass that depends on no data is no gradient, whatever made it:
    the empty stacks that a loop fills for its gradient.
    """
    return _with_tuple_root(_with_late_phases(_with_early_phases(module)))


def _with_early_phases(module: Module) -> Module:
    entry = module.entry_computation
    timeless: set[str] = set()
    for instruction in entry:
        if instruction.opcode not in SOURCES and timeless.issuperset(instruction.operands):
            timeless.add(instruction.name)
    early: set[str] = set()
    instructions = []
    for instruction in reversed(entry.instructions):
        if instruction.name in early and instruction.phase == "backward":
            instruction = instruction.replace(phase="forward")
        if instruction.phase == "forward" and instruction.name != entry.root:
            early.update(timeless.intersection(instruction.operands))
        instructions.append(instruction)
    return _with_entry(module, reversed(instructions))


def _with_late_phases(module: Module) -> Module:
    entry = module.entry_computation
    late: set[str] = set()
    instructions = []
    for instruction in entry:
        if instruction.phase == "forward" and not late.isdisjoint(instruction.operands):
            instruction = instruction.replace(phase="backward")
        if instruction.phase == "backward":
            late.add(instruction.name)
        instructions.append(instruction)
    return _with_entry(module, instructions)


def _with_entry(module: Module, instructions: Iterable[Instruction]) -> Module:
    entry = with_instructions(module.entry_computation, instructions)
    return module.replace(computations={**module.computations, module.entry: entry})


def _with_tuple_root(module: Module) -> Module:
    entry = module.entry_computation
    root = entry.by_name()[entry.root]
    if root.opcode == "tuple":
        return module
    results = Instruction(
        name=f"{root.name}.results",
        opcode="tuple",
        type=TupleType((root.type,)),
        operands=(root.name,),
        phase=root.phase,
    )
    computation = Computation(
        name=entry.name, instructions=(*entry.instructions, results), root=results.name
    )
    return module.replace(computations={**module.computations, entry.name: computation})


def with_accumulators(module: Module, assignment: Assignment) -> tuple[Module, Assignment]:
    """Returns a step that accumulates the values of the backward pass that its update reads.

    Does not model their zeroing before the first micro-batch.

    Args:
        module: The step of one micro-batch, prepared.
        assignment: Stages of its instructions.
    """
    entry = module.entry_computation
    read_by = entry.users
    root = entry.by_name()[entry.root]
    results = list(_results(entry))
    parameters = list(module.parameters)
    instructions: list[Instruction] = []
    accumulators: dict[str, str] = {}
    stages = dict(assignment.stage_of)
    for instruction in entry:
        if instruction.name == entry.root:
            continue
        if instruction.phase == "update" and not accumulators.keys().isdisjoint(
            instruction.operands
        ):
            operands = tuple(accumulators.get(name, name) for name in instruction.operands)
            instruction = instruction.replace(operands=operands)
        instructions.append(instruction)
        readers = [user for user in read_by[instruction.name] if user is not root]
        if not _is_gradient(instruction, readers):
            continue
        total, place = f"{instruction.name}.accumulator", f"{instruction.name}.accumulated"
        instructions += _accumulation(instruction, total, place, len(parameters))
        parameters.append(
            Parameter(
                name=total, role="accumulator", layer=instruction.layer, updated_by=len(results)
            )
        )
        results.append(place)
        accumulators[instruction.name] = place
        stages[total] = stages[place] = stages[instruction.name]
    by_name = {instruction.name: instruction for instruction in instructions}
    types = tuple(by_name[name].type for name in results)
    new_root = root.replace(type=TupleType(types), operands=tuple(results))
    computation = Computation(
        name=entry.name, instructions=(*instructions, new_root), root=new_root.name
    )
    return (
        module.replace(
            computations={**module.computations, entry.name: computation},
            parameters=tuple(parameters),
        ),
        Assignment(stage_of=stages, anywhere=assignment.anywhere),
    )


def accumulated(module: Module) -> tuple[str, ...]:
    """Returns the new values of a step's own accumulators, names of instructions."""
    results = _results(module.entry_computation)
    return tuple(
        results[parameter.updated_by]
        for parameter in module.parameters
        if parameter.role == "accumulator" and parameter.updated_by is not None
    )


def gradients(module: Module) -> tuple[str, ...]:
    """Returns the names of the instructions whose results replicas add up for the update of a step.

    These are its accumulators, or else the results of the backward pass that the update reads.
    """
    if sums := accumulated(module):
        return sums
    read_by = module.entry_computation.users
    return tuple(i.name for i in module.entry_computation if _is_gradient(i, read_by[i.name]))


def _is_gradient(instruction: Instruction, readers: Sequence[Instruction]) -> bool:
    return (
        instruction.phase == "backward"
        and isinstance(instruction.type, Array)
        and any(reader.phase == "update" for reader in readers)
    )


def _accumulation(
    gradient: Instruction, total: str, place: str, number: int
) -> tuple[Instruction, Instruction]:
    """Returns the accumulator of a gradient and the addition to it."""
    return (
        Instruction(
            name=total,
            opcode="parameter",
            type=gradient.type,
            attributes={"parameter_number": number},
        ),
        Instruction(
            name=place,
            opcode="add",
            type=gradient.type,
            operands=(total, gradient.name),
            layer=gradient.layer,
            phase="backward",
        ),
    )


def _results(entry: Computation) -> tuple[str, ...]:
    """Returns the names of the parts of a computation's result, which is a tuple."""
    return entry.by_name()[entry.root].operands


def _arrays(type_: Type) -> Iterator[Array]:
    if isinstance(type_, Array):
        yield type_
        return
    for part in type_.parts:
        yield from _arrays(part)
