"""Loops, conditionals and maps.

Models a loop whose length is not known as if it ran once, and of a conditional the branch that
takes longest; the program's notes say so. What a loop carries lies in place: every iteration
leaves it where it found it, by a copy where the body makes it elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ipu_tf.compiler.blocks import Block, Node, Value, Values
from ipu_tf.compiler.hlo import Array, Computation, Instruction, Type
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.flow import trips_of

if TYPE_CHECKING:
    from ipu_tf.compiler.build import BlockBuilder


def array_count(type_: Type) -> int:
    """Returns the number of arrays in a type."""
    return 1 if isinstance(type_, Array) else sum(map(array_count, type_.parts))


def source_of(
    instructions: Mapping[str, Instruction], name: str, number: int
) -> tuple[Instruction, int]:
    """Returns the instruction that makes an array of a result, looking through tuples.

    Args:
        instructions: The instructions of the computation.
        name: The instruction whose result it is.
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


def inner_targets(
    computation: Computation,
    instructions: Mapping[str, Instruction],
    targets: Mapping[int, Value],
) -> dict[str, dict[int, Value]]:
    """Returns which results of calls and conditionals are to lie where in the end.

    Args:
        computation: The computation.
        instructions: Its instructions, by name.
        targets: Where results of the computation are to lie, by the number of the array.
    """
    found: dict[str, dict[int, Value]] = {}
    for number, target in targets.items():
        source, inner_number = source_of(instructions, computation.root, number)
        if source.opcode in ("call", "conditional"):
            found.setdefault(source.name, {})[inner_number] = target
    return found


def reachable_targets(
    conditional: Instruction,
    computation: Computation,
    values: Mapping[str, Values],
    targets: Mapping[int, Value],
) -> Mapping[int, Value]:
    """Returns the targets that a conditional may overwrite: nobody reads them after it.

    Args:
        conditional: The conditional.
        computation: The computation that holds it.
        values: The arrays of every instruction before it.
        targets: Where its results are to lie in the end, by their number.
    """
    if not targets:
        return targets
    later = {conditional.name}
    read_later: set[str] = set()
    for instruction in computation:
        if not later.isdisjoint(instruction.operands):
            later.add(instruction.name)
            read_later.update(instruction.operands)
    needed = {value.buffer for name in read_later if name in values for value in values[name]}
    return {n: target for n, target in targets.items() if target.buffer not in needed}


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


def add_loop(
    builder: BlockBuilder, instruction: Instruction, state: Values, context: LoweringContext
) -> Values:
    """Adds a while loop to a block and returns the arrays that it leaves.

    Args:
        builder: The block.
        instruction: The loop.
        state: The arrays that it starts from.
        context: The context of the computation that holds it.
    """
    body, condition = (context.computations[name] for name in instruction.computations)
    trips = trips_of(instruction)
    if trips is None:
        trips = 1
        most = instruction.attributes.get("max_trip_count")
        times = "an unknown number of times" + ("" if most is None else f", at most {most}")
        builder.session.notes[f"The loop {_where(instruction)} runs {times}; one is counted."] = (
            None
        )
    fixed = _unchanged(body, len(state))
    carried = tuple(
        value
        if number in fixed
        else builder.copy(value, name=f"{instruction.name}.{number}", caller=instruction)
        for number, value in enumerate(state)
    )
    inside = _outside_values(carried)
    targets = {n: value for n, value in enumerate(inside) if n not in fixed}
    body_block = _block(builder, instruction, body, (inside,), inside, targets)
    condition_block = _block(builder, instruction, condition, (inside,), inside, {})
    node = _control_node(builder, instruction, carried, context)
    node.bodies = ((condition_block, trips + 1), (body_block, trips))
    index = builder.add(node)
    return tuple(
        value if number in fixed else dataclasses.replace(value, made_by=index)
        for number, value in enumerate(carried)
    )


def add_conditional(
    builder: BlockBuilder,
    instruction: Instruction,
    operands: Sequence[Values],
    context: LoweringContext,
    targets: Mapping[int, Value],
) -> Values:
    """Adds a conditional to a block and returns the arrays that its longest branch leaves.

    Args:
        builder: The block.
        instruction: The conditional.
        operands: The arrays of the predicate, then of every branch's parameter.
        context: The context of the computation that holds it.
        targets: Where results are to lie in the end, by their number.
    """
    outside = _outside_values(tuple(targets.values()))
    branches = [
        _block(
            builder,
            instruction,
            context.computations[name],
            (_outside_values(values),),
            (*_outside_values(values), *outside),
            dict(zip(targets, outside, strict=True)),
            own_results=True,
        )
        for name, values in zip(instruction.computations, operands[1:], strict=True)
    ]
    longest = max(range(len(branches)), key=lambda branch: branches[branch].cycles())
    builder.session.notes[
        f"Of the {len(branches)} branches of the conditional {_where(instruction)} the one that "
        "takes longest is counted."
    ] = None
    chosen = branches[longest]
    read = [value for values in operands for value in values]
    node = _control_node(builder, instruction, read, context)
    node.bodies = ((chosen, 1),)
    node.idle_bodies = tuple(block for block in branches if block is not chosen)
    find = builder.session.buffers.find
    shared = {find(value.buffer) for value in outside}
    made = dict.fromkeys(find(value.buffer) for value in chosen.results)
    node.writes = tuple(buffer for buffer in made if buffer not in shared)
    index = builder.add(node)
    return tuple(dataclasses.replace(value, made_by=index) for value in chosen.results)


def _block(
    builder: BlockBuilder,
    caller: Instruction,
    computation: Computation,
    parameters: Sequence[Values],
    arguments: Sequence[Value],
    targets: Mapping[int, Value],
    *,
    own_results: bool = False,
) -> Block:
    """Returns the block of a called computation.

    Args:
        builder: The block that calls it.
        caller: The instruction that calls it.
        computation: The computation.
        parameters: The arrays of every parameter.
        arguments: What belongs to the caller.
        targets: Where results are to lie in the end, by their number.
        own_results: Whether the other results need memory of their own.
    """
    inner = builder.spawn(caller)
    results = inner.run(computation, parameters, targets)
    if own_results:
        results = tuple(
            inner.copy(value, name=f"{caller.name}.{number}")
            if value.made_by is None and number not in targets
            else value
            for number, value in enumerate(results)
        )
    return inner.finish(results, arguments, targets)


def _control_node(
    builder: BlockBuilder, instruction: Instruction, read: Sequence[Value], context: LoweringContext
) -> Node:
    """Returns the node of a loop or conditional, with what control itself costs."""
    placements = [value.placement for value in read]
    lowered = builder.session.lower(instruction, placements, context)
    return Node(
        instruction=instruction,
        lowered=lowered,
        reads=tuple(dict.fromkeys(value.buffer for value in read)),
        after={value.made_by for value in read if value.made_by is not None},
    )


def _outside_values(values: Values) -> Values:
    """Returns values as a called computation sees them: no node of its own makes them."""
    return tuple(dataclasses.replace(value, made_by=None) for value in values)


def _unchanged(body: Computation, count: int) -> frozenset[int]:
    """Returns the numbers of the arrays that a loop's body hands on as they are."""
    instructions = body.by_name()
    found = set()
    for number in range(count):
        source, inner_number = source_of(instructions, body.root, number)
        if source.opcode == "parameter" and inner_number == number:
            found.add(number)
    return frozenset(found)


def _dims(instruction: Instruction) -> tuple[int, ...]:
    if isinstance(instruction.type, Array):
        return instruction.type.dims
    raise ValueError(
        f"A map must give one array. '{instruction.name}' gives: {instruction.type!r}."
    )


def _where(instruction: Instruction) -> str:
    """Returns where an instruction is, for notes."""
    if instruction.layer:
        return f"of layer '{instruction.layer}'"
    return f"'{instruction.op_name or instruction.name}'"
