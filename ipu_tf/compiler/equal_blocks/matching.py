"""Pairs the instructions of two neighbouring equal blocks, and checks that they are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipu_tf.compiler.cache import plain_attribute
from ipu_tf.compiler.equal_blocks.repetition import (
    BEFORE,
    BEHIND,
    FIRST,
    SECOND,
    Block,
    NotRepeated,
    Repetition,
)
from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import CONTROL
from ipu_tf.compiler.recomputation import marks

Where: TypeAlias = Literal["outside", "same", "before", "behind"]
"""Where the value comes from that an instruction reads: from outside of all blocks or the outer two
of the trace, from the same block, or from its neighbours."""

_NUMBER = "parameter_number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Equal instructions of the two inner blocks of a trace.

    Attributes:
        first: That of the first one.
        second: That of the second one.
        reads: Where its operands come from, each with its name: of a value in a block, the name
            in the first of the two.
    """

    first: Instruction
    second: Instruction
    reads: tuple[tuple[Where, str], ...]


def pairs_of_blocks(
    module: Module, blocks: Mapping[str, Block], repetition: Repetition
) -> Mapping[str, Pair]:
    """Returns the pairs of a trace's inner blocks, by the names of the first.

    Args:
        module: The trace.
        blocks: The blocks of its instructions.
        repetition: The equal blocks.

    Raises:
        NotRepeated: The two blocks differ, or a block is tied to another than its neighbours.
    """
    _check_neighbours(module, blocks)
    seconds = _partners(module, blocks, repetition)
    firsts = {second.name: first for first, second in seconds.items()}
    by_name = module.entry_computation.by_name()
    pairs = {}
    for name, second in seconds.items():
        first = by_name[name]
        _check_equal(module, first, second, repetition)
        reads = tuple(
            _source_of_read(one, other, blocks, seconds, firsts)
            for one, other in zip(first.operands, second.operands, strict=True)
        )
        pairs[name] = Pair(first=first, second=second, reads=reads)
    return pairs


def _check_neighbours(module: Module, blocks: Mapping[str, Block]) -> None:
    """Checks that only neighbours, or the outer two blocks, read each other's values."""
    entry = module.entry_computation
    for instruction in entry:
        if instruction.name == entry.root:
            continue
        reader_block = blocks.get(instruction.name)
        for operand in instruction.operands:
            operand_block = blocks.get(operand)
            if operand_block not in (FIRST, SECOND) or reader_block in (FIRST, SECOND):
                continue
            if (reader_block, operand_block) not in ((BEFORE, FIRST), (BEHIND, SECOND)):
                raise NotRepeated(
                    f"'{instruction.name}' ({instruction.opcode}, '{instruction.op_name}') reads "
                    f"'{operand}' of a block that is not its neighbour."
                )


def _partners(
    module: Module, blocks: Mapping[str, Block], repetition: Repetition
) -> Mapping[str, Instruction]:
    """Returns the instructions of the second block by the names of their equals in the first.

    They are of one kind and read values of their block that are. Of several the n-th is the equal
    of the n-th.
    """
    kinds: tuple[dict[object, list[Instruction]], ...] = ({}, {})
    numbers: dict[object, int] = {}
    kind_of: dict[str, int] = {}
    for instruction in module.entry_computation:
        block = blocks.get(instruction.name)
        if block not in (FIRST, SECOND):
            continue
        variable = ""
        if instruction.opcode == "parameter":
            parameter = module.parameters[instruction.attributes["parameter_number"]]
            variable = repetition.normalised_variable(parameter.name)
        operand_kinds = [
            kind_of[one] if blocks.get(one) == block else -1 for one in instruction.operands
        ]
        kind = (*_kind(instruction, repetition), variable, *operand_kinds)
        kind_of[instruction.name] = numbers.setdefault(kind, len(numbers))
        kinds[block - FIRST].setdefault(kind, []).append(instruction)
    first, second = kinds
    if {kind: len(ones) for kind, ones in first.items()} != {
        kind: len(ones) for kind, ones in second.items()
    }:
        differing = next(
            kind
            for kind in {**first, **second}
            if len(first.get(kind, ())) != len(second.get(kind, ()))
        )
        raise NotRepeated(f"The blocks have other instructions: {differing}.")
    if not first:
        raise NotRepeated("The blocks have no instructions.")
    return {
        one.name: other
        for kind, ones in first.items()
        for one, other in zip(ones, second[kind], strict=True)
    }


def _kind(instruction: Instruction, repetition: Repetition) -> tuple[object, ...]:
    return (
        instruction.opcode,
        str(instruction.type),
        instruction.op_type,
        instruction.phase,
        repetition.normalised(instruction.layer),
        repetition.normalised(instruction.op_name),
    )


def _check_equal(
    module: Module, first: Instruction, second: Instruction, repetition: Repetition
) -> None:
    """Checks that two instructions differ in their operands and their names at most."""
    is_equal = (
        _kind(first, repetition) == _kind(second, repetition)
        and len(first.operands) == len(second.operands)
        and not (first.opcode in CONTROL or first.after or second.after)
        and not marks.is_rematerialized(first)
        and _attributes(first) == _attributes(second)
        and len(first.computations) == len(second.computations)
        and all(
            _equal_computations(module, module.computations[one], module.computations[other],
                                repetition)
            for one, other in zip(first.computations, second.computations, strict=True)
        )
    )  # fmt: skip
    if not is_equal:
        raise NotRepeated(
            f"'{first.name}' and '{second.name}' ({first.opcode}, '{first.op_name}') differ."
        )


def _attributes(instruction: Instruction) -> dict[str, object]:
    return {
        key: plain_attribute(value)
        for key, value in instruction.attributes.items()
        if key != _NUMBER or instruction.opcode != "parameter"
    }


def _equal_computations(
    module: Module, first: Computation, second: Computation, repetition: Repetition
) -> bool:
    if first is second:
        return True
    if len(first.instructions) != len(second.instructions):
        return False
    places = {one.name: place for place, one in enumerate(first)}
    other_places = {one.name: place for place, one in enumerate(second)}
    for one, other in zip(first, second, strict=True):
        try:
            _check_equal(module, one, other, repetition)
        except NotRepeated:
            return False
        if one.attributes.get(_NUMBER) != other.attributes.get(_NUMBER):
            return False
        if _at(one.operands, places) != _at(other.operands, other_places):
            return False
    return places[first.root] == other_places[second.root]


def _at(names: Sequence[str], places: Mapping[str, int]) -> list[int]:
    return [places[name] for name in names]


def _source_of_read(
    first: str,
    second: str,
    blocks: Mapping[str, Block],
    seconds: Mapping[str, Instruction],
    firsts: Mapping[str, str],
) -> tuple[Where, str]:
    """Returns where two equal instructions read, and what, as in `Pair.reads`.

    Args:
        first: The operand of that of the first block.
        second: The operand of that of the second one.
        blocks: The blocks of all instructions.
        seconds: The equals of those of the first block.
        firsts: The equals of those of the second block.
    """
    where = blocks.get(first), blocks.get(second)
    if first == second and where[0] in (None, BEFORE, BEHIND):
        return "outside", first
    if where == (FIRST, SECOND) and firsts.get(second) == first:
        return "same", first
    if where == (BEFORE, FIRST) and second in seconds:
        return "before", second
    if where == (SECOND, BEHIND) and first in firsts:
        return "behind", firsts[first]
    raise NotRepeated(
        f"Equal instructions read '{first}' and '{second}', of blocks {where[0]} and {where[1]}."
    )
