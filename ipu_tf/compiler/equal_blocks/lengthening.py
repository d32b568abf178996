"""Makes the step of all equal blocks from that of four: the inner ones are copied.

A trace takes some 0.2 ms of the host an operation, and its HLO as much, whereas copies of
instructions take some microseconds. A trace of four blocks shows what stands between two: how a
block follows the one before it, and how its gradient follows that of the one behind it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ipu_tf.compiler.equal_blocks.matching import Pair, Where, pairs_of_blocks
from ipu_tf.compiler.equal_blocks.outer_blocks import OuterBlocks
from ipu_tf.compiler.equal_blocks.repetition import FIRST, SECOND, Block, NotRepeated, Repetition
from ipu_tf.compiler.equal_blocks.splicing import spliced
from ipu_tf.compiler.equal_blocks.traced_blocks import blocks_of_instructions
from ipu_tf.compiler.hlo import Instruction, Module, Parameter, TupleType
from ipu_tf.compiler.passes import dead_code, inline
from ipu_tf.compiler.traced_step import TracedStep


def lengthened(step: TracedStep, repetition: Repetition) -> TracedStep:
    """Returns the step of all blocks of a model.

    Args:
        step: The step of four of the blocks, as traced.
        repetition: The blocks.

    Raises:
        NotRepeated: The blocks between the first and the last do not follow from the step.
    """
    module = dead_code.run(inline.run(step.module))
    blocks = blocks_of_instructions(module, repetition)
    pairs = pairs_of_blocks(module, blocks, repetition)
    plans = dict(step.plans)
    for pair in pairs.values():
        if pair.second.op_name in step.plans:
            plan = step.plans[pair.second.op_name]
            if step.plans.get(pair.first.op_name) != plan:
                raise NotRepeated(f"The tile ops '{pair.first.op_name}' have other plans.")
            for copy in range(repetition.copies):
                plans[repetition.renamed(pair.second.op_name, copy)] = plan
    longer = _Lengthening(module, blocks, pairs, repetition).module()
    outer = OuterBlocks(trace=step.module, repetition=repetition, longer=longer)
    return dataclasses.replace(step, module=longer, plans=plans, outer=outer)


def lengthened_module(module: Module, repetition: Repetition) -> Module:
    """Returns the simplified step of all blocks of a model.

    Args:
        module: The step of four of the blocks, simplified.
        repetition: The blocks.

    Raises:
        NotRepeated: As `lengthened`; simplification may join what blocks have.
    """
    blocks = blocks_of_instructions(module, repetition)
    pairs = pairs_of_blocks(module, blocks, repetition)
    return _Lengthening(module, blocks, pairs, repetition).module()


_OFFSETS: Mapping[Where, int] = {"same": 0, "before": -1, "behind": 1}
"""Where a block reads, as how far it is to there."""


class _Lengthening:
    """Copies the second block of a trace.

    Args:
        module: The trace.
        blocks: The blocks of its instructions.
        pairs: Equal instructions of the inner blocks, by the names of the first.
        repetition: All blocks of the model.
    """

    def __init__(
        self,
        module: Module,
        blocks: Mapping[str, Block],
        pairs: Mapping[str, Pair],
        repetition: Repetition,
    ) -> None:
        self._module = module
        self._entry = module.entry_computation
        self._blocks = blocks
        self._pairs = pairs
        self._repetition = repetition
        self._numbers = itertools.count(_first_number(module))
        names = {first: pair.second.name for first, pair in pairs.items()}
        self._firsts = {second: first for first, second in names.items()}
        copied = [
            {first: self._new_name(first) for first in pairs} for _ in range(repetition.copies)
        ]
        self._names: list[Mapping[str, str]] = [{f: f for f in pairs}, *copied, names]
        """The names of the pairs in every block from the first to the second of the trace."""

    def module(self) -> Module:
        """Returns the module with all blocks."""
        by_name = {one.name: self._rewired(one) for one in self._entry}
        for copy in range(self._repetition.copies):
            for first, pair in self._pairs.items():
                by_name[self._names[copy + 1][first]] = self._copied(first, pair, copy)
        results = self._spliced_results()
        root = self._root(by_name, results)
        by_name[root.name] = root
        parameters = self._parameters(by_name, results)
        instructions = tuple(_operands_first(self._sequence(), by_name))
        entry = dataclasses.replace(self._entry, instructions=instructions)
        computations = {**self._module.computations, entry.name: entry}
        return self._module.replace(computations=computations, parameters=parameters)

    def _rewired(self, instruction: Instruction) -> Instruction:
        """Returns an instruction of the trace that reads the copies next to its block."""
        name = instruction.name
        if name in self._pairs:
            block, first = 0, name
        elif name in self._firsts:
            block, first = len(self._names) - 1, self._firsts[name]
        else:
            return instruction
        return instruction.replace(operands=self._operands(self._pairs[first], block))

    def _operands(self, pair: Pair, block: int) -> tuple[str, ...]:
        """Returns the operands of an instruction of a pair in a block, from 0 for the first.

        What the blocks at the ends read of their other neighbours stays.
        """
        operands = []
        for number, (where, name) in enumerate(pair.reads):
            offset = _OFFSETS.get(where)
            if offset is None:
                operands.append(name)
            elif 0 <= block + offset < len(self._names):
                operands.append(self._names[block + offset][name])
            else:
                trace = pair.second if block else pair.first
                operands.append(trace.operands[number])
        return tuple(operands)

    def _copied(self, first: str, pair: Pair, copy: int) -> Instruction:
        second = pair.second
        # Not by `replace`, which takes several times as long: most of a large step is copied.
        return Instruction(
            name=self._names[copy + 1][first],
            opcode=second.opcode,
            type=second.type,
            operands=self._operands(pair, copy + 1),
            computations=second.computations,
            attributes=second.attributes,
            op_name=self._repetition.renamed(second.op_name, copy),
            op_type=second.op_type,
            layer=self._repetition.renamed(second.layer, copy),
            phase=second.phase,
            recomputed=second.recomputed,
            after=second.after,
        )

    def _sequence(self) -> Iterator[str]:
        """Yields the names of all instructions, near the order in which a trace has them."""
        items = [self._item(instruction.name) for instruction in self._entry]
        for place, block in spliced(items, self._repetition.copies):
            name = items[place][1]
            yield name if block is None else self._names[block][name]

    def _spliced_results(self) -> list[tuple[int, int | None]]:
        """Returns the parts of the result, with those of the copies; see `spliced`."""
        root = self._entry.by_name()[self._entry.root]
        if root.opcode != "tuple":
            if any(name in self._pairs or name in self._firsts for name in root.operands):
                raise NotRepeated(f"The result, '{root.name}' ({root.opcode}), reads all blocks.")
            return []
        return spliced([self._item(name) for name in root.operands], self._repetition.copies)

    def _item(self, name: str) -> tuple[Block | None, str]:
        if name in self._pairs:
            return FIRST, name
        if name in self._firsts:
            return SECOND, self._firsts[name]
        return None, name

    def _root(
        self, by_name: Mapping[str, Instruction], results: Sequence[tuple[int, int | None]]
    ) -> Instruction:
        root = self._entry.by_name()[self._entry.root]
        if root.opcode != "tuple":
            return root
        operands = [root.operands[place] for place, _ in results]
        names = [
            name if block is None else self._names[block][name]
            for name, (_, block) in zip(operands, results, strict=True)
        ]
        return root.replace(
            operands=tuple(names), type=TupleType(tuple(by_name[name].type for name in names))
        )

    def _parameters(
        self, by_name: dict[str, Instruction], results: Sequence[tuple[int, int | None]]
    ) -> tuple[Parameter, ...]:
        """Returns the parameters with those of the copies; numbers the instructions anew."""
        parameters_of_module = self._module.parameters
        instructions = {
            one.attributes["parameter_number"]: one.name
            for one in self._entry
            if one.opcode == "parameter"
        }
        items = [self._item(instructions[number]) for number in range(len(parameters_of_module))]
        second_of = {
            name: parameters_of_module[n]
            for n, (block, name) in enumerate(items)
            if block == SECOND
        }
        updates = {like: number for number, like in enumerate(results)}
        parameters: list[Parameter] = []
        for place, block in spliced(items, self._repetition.copies):
            parameter, name = parameters_of_module[place], instructions[place]
            if block is not None:
                parameter = self._parameter(parameter, second_of[name], block)
                name = self._names[block][name]
            result = parameters_of_module[place].updated_by
            if result is not None:
                if (result, block) not in updates:
                    raise NotRepeated(f"'{parameter.name}' is updated by another block.")
                parameter = dataclasses.replace(parameter, updated_by=updates[result, block])
            attributes = {**by_name[name].attributes, "parameter_number": len(parameters)}
            by_name[name] = by_name[name].replace(attributes=attributes)
            parameters.append(parameter)
        return tuple(parameters)

    def _parameter(self, first: Parameter, second: Parameter, block: int) -> Parameter:
        """Returns the parameter of a block, from those of the first and of the second."""
        if first.role != second.role or self._update(first) != self._update(second):
            raise NotRepeated(f"'{first.name}' and '{second.name}' are used in different ways.")
        if block in (0, len(self._names) - 1):
            return second if block else first
        return dataclasses.replace(
            second,
            name=self._repetition.renamed_variable(second.name, block - 1),
            layer=self._repetition.renamed(second.layer, block - 1),
        )

    def _update(self, parameter: Parameter) -> str | None:
        """Returns what a parameter of an inner block is updated to, as the first block calls it."""
        if parameter.updated_by is None:
            return None
        root = self._entry.by_name()[self._entry.root]
        name = root.operands[parameter.updated_by] if root.opcode == "tuple" else root.name
        return self._firsts.get(name, name)

    def _new_name(self, name: str) -> str:
        stem, _, number = name.rpartition(".")
        return f"{stem if stem and number.isdigit() else name}.{next(self._numbers)}"


def _first_number(module: Module) -> int:
    """Returns a number above those in the names of a module's instructions and computations."""
    names = [one.name for computation in module.computations.values() for one in computation]
    ends = [name.rpartition(".")[2] for name in (*names, *module.computations)]
    return 1 + max((int(end) for end in ends if end.isdigit()), default=0)


def _operands_first(
    names: Iterable[str], by_name: Mapping[str, Instruction]
) -> Iterator[Instruction]:
    """Yields instructions in the order of their names, each after those that it reads."""
    visits: set[str] = set()
    for start in names:
        stack = [(start, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                yield by_name[name]
            elif name not in visits:
                visits.add(name)
                stack.append((name, True))
                stack += [(operand, False) for operand in reversed(by_name[name].operands)]
