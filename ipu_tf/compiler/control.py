"""How loops, conditionals, maps and tuples pass arrays on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ipu_tf.compiler.blocks import Value, Values
from ipu_tf.compiler.hlo import Array, Computation, Instruction, Type
from ipu_tf.compiler.lowering.context import LoweringContext


def array_count(type_: Type) -> int:
    """Returns the number of arrays in a type."""
    return 1 if isinstance(type_, Array) else sum(map(array_count, type_.parts))


def source_of(
    instructions: Mapping[str, Instruction], name: str, number: int
) -> tuple[Instruction, int]:
    """Returns the instruction that makes an array of a result, looking through tuples.

    Args:
        instructions: The instructions of the computation.
        name: The instruction that gives the result.
        number: Number of the array in the result.

    Returns:
        The instruction, and the number of the array in its result.
    """
    instruction = instructions[name]
    while True:
        if instruction.opcode == "tuple":
            for operand in instruction.operands:
                count = array_count(instructions[operand].type)
                if number < count:
                    instruction = instructions[operand]
                    break
                number -= count
        elif instruction.opcode == "get-tuple-element":
            whole = instructions[instruction.operands[0]]
            parts: tuple[Type, ...] = getattr(whole.type, "parts", ())
            number += sum(map(array_count, parts[: instruction.attributes["tuple_index"]]))
            instruction = whole
        else:
            return instruction, number


def sources_of(instructions: Mapping[str, Instruction], name: str) -> list[tuple[Instruction, int]]:
    """Returns the source of every array of a result, as `source_of` does of one.

    A step's result has an array for every variable: each is found without those before it.
    """
    instruction = instructions[name]
    if instruction.opcode == "tuple":
        return [one for part in instruction.operands for one in sources_of(instructions, part)]
    count = array_count(instruction.type)
    return [source_of(instructions, name, number) for number in range(count)]


def inner_targets(
    computation: Computation,
    instructions: Mapping[str, Instruction],
    targets: Mapping[int, Value],
) -> dict[str, dict[int, Value]]:
    """Returns the targets of the results of calls and conditionals.

    Args:
        computation: The computation.
        instructions: Its instructions, by name.
        targets: Targets of the computation's results, by the number of the array.
    """
    targets_of_names: dict[str, dict[int, Value]] = {}
    sources = sources_of(instructions, computation.root) if targets else []
    for number, target in targets.items():
        source, inner_number = sources[number]
        if source.opcode in ("call", "conditional"):
            targets_of_names.setdefault(source.name, {})[inner_number] = target
    return targets_of_names


def reachable_targets(
    conditional: Instruction,
    computation: Computation,
    values: Mapping[str, Values],
    targets: Mapping[int, Value],
) -> Mapping[int, Value]:
    """Returns the targets that a conditional may overwrite: no instruction reads them after it.

    Args:
        conditional: The conditional.
        computation: The computation that holds it.
        values: The arrays of every instruction before it.
        targets: Targets of its results, by their number.
    """
    if not targets:
        return targets
    later = {conditional.name}
    read_later: set[str] = set()
    for instruction in computation:
        if not later.isdisjoint(instruction.operands):
            later.add(instruction.name)
            read_later.update(instruction.operands)
    live_buffers = {value.buffer for name in read_later if name in values for value in values[name]}
    return {n: target for n, target in targets.items() if target.buffer not in live_buffers}


def mapped(instruction: Instruction, context: LoweringContext) -> Computation:
    """Returns the computation of a map, for whole arrays instead of single elements."""
    computation = context.computations[instruction.computations[0]]
    dims = _dims(instruction)
    return dataclasses.replace(
        computation,
        instructions=tuple(
            inner
            if inner.opcode == "constant" or not isinstance(inner.type, Array)
            else inner.replace(
                type=Array(inner.type.dtype, dims),
                layer=inner.layer or instruction.layer,
                phase=instruction.phase,
            )
            for inner in computation
        ),
    )


def invariant_numbers(body: Computation, count: int) -> frozenset[int]:
    """Returns the numbers of the arrays that a loop's body passes on unchanged."""
    instructions = body.by_name()
    sources = sources_of(instructions, body.root)[:count]
    return frozenset(
        number
        for number, (source, inner_number) in enumerate(sources)
        if source.opcode == "parameter" and inner_number == number
    )


def _dims(instruction: Instruction) -> tuple[int, ...]:
    if isinstance(instruction.type, Array):
        return instruction.type.dims
    raise ValueError(
        f"A map must give one array. '{instruction.name}' gives: {instruction.type!r}."
    )
