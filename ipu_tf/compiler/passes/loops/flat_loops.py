"""Makes the state of every loop one tuple of arrays.

XLA keeps a list as a tuple of its buffer and its length, within the tuple of the state. Without
nested tuples, passes that change states deal with one kind of part.
"""

from __future__ import annotations

from collections.abc import Iterator

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module, TupleType, Type
from ipu_tf.compiler.passes.rewrite import programs, rename_operands


def run(module: Module) -> Module:
    """Returns the module without nested tuples in the states of loops.

    Readers of a state now read a tuple of tuples made of the arrays; `identities` looks through
    it.
    """
    nested = [
        instruction
        for name in programs(module)
        for instruction in module.computations[name]
        if instruction.opcode == "while" and _is_nested(instruction.type)
    ]
    if not nested:
        return module
    bodies = {loop.computations[0] for loop in nested}
    conditions = bodies | {loop.computations[1] for loop in nested}
    computations = dict(module.computations)
    for name in programs(module):
        computations[name] = _flat(
            computations[name], takes_state=name in conditions, gives_state=name in bodies
        )
    return module.replace(computations=computations)


def _flat(computation: Computation, *, takes_state: bool, gives_state: bool) -> Computation:
    """Returns a computation whose loops have flat states.

    Args:
        computation: The computation.
        takes_state: Whether its parameter is the state of a loop that becomes flat.
        gives_state: Whether its root is such a state.
    """
    instructions: list[Instruction] = []
    aliases: dict[str, str] = {}
    for original in computation:
        instruction = rename_operands(original, aliases)
        is_loop = instruction.opcode == "while" and _is_nested(instruction.type)
        if is_loop:
            state = _flat_tuple(
                f"{original.name}.initial", instruction.operands[0], instruction.type, instructions
            )
            instruction = instruction.replace(operands=(state,))
        if not is_loop and not (takes_state and instruction.opcode == "parameter"):
            instructions.append(instruction)
            continue
        arrays = TupleType(tuple(_arrays(instruction.type)))
        instructions.append(instruction.replace(type=arrays))
        parts = _parts(f"{original.name}.part", original.name, arrays, instructions)
        aliases[original.name] = _nested_tuple(
            f"{original.name}.nested", instruction.type, iter(parts), instructions
        )
    root = aliases.get(computation.root, computation.root)
    if gives_state:
        type_ = computation.by_name()[computation.root].type
        root = _flat_tuple(f"{computation.root}.flat", root, type_, instructions)
    return Computation(name=computation.name, instructions=tuple(instructions), root=root)


def _is_nested(type_: Type) -> bool:
    return isinstance(type_, TupleType) and any(isinstance(p, TupleType) for p in type_.parts)


def _arrays(type_: Type) -> Iterator[Array]:
    """Yields the types of the arrays in a type."""
    if isinstance(type_, Array):
        yield type_
    else:
        for part in type_.parts:
            yield from _arrays(part)


def _parts(prefix: str, state: str, type_: TupleType, instructions: list[Instruction]) -> list[str]:
    """Adds the instructions that take a tuple apart; returns their names: a prefix and a number."""
    parts = [
        Instruction(
            name=f"{prefix}{index}",
            opcode="get-tuple-element",
            type=part,
            operands=(state,),
            attributes={"tuple_index": index},
        )
        for index, part in enumerate(type_.parts)
    ]
    instructions += parts
    return [part.name for part in parts]


def _flat_tuple(name: str, state: str, type_: Type, instructions: list[Instruction]) -> str:
    """Adds the instructions of the tuple of all arrays in a state; returns its name.

    Args:
        name: Its name.
        state: Name of the state, a tuple that may hold tuples.
        type_: The type of the state.
        instructions: Gets the instructions.
    """
    arrays: list[str] = []

    def collect(part: str, type_: Type, prefix: str) -> None:
        if isinstance(type_, Array):
            arrays.append(part)
            return
        inner = _parts(prefix, part, type_, instructions)
        for part, part_type in zip(inner, type_.parts, strict=True):
            collect(part, part_type, f"{part}.")

    collect(state, type_, f"{name}.part")
    flat = TupleType(tuple(_arrays(type_)))
    instructions.append(Instruction(name=name, opcode="tuple", type=flat, operands=tuple(arrays)))
    return name


def _nested_tuple(
    name: str, type_: Type, arrays: Iterator[str], instructions: list[Instruction]
) -> str:
    """Adds the instructions of a tuple that may hold tuples; returns its name.

    Args:
        name: Its name.
        type_: Its type.
        arrays: Names of the arrays in it, in order.
        instructions: Gets the instructions.
    """
    if isinstance(type_, Array):
        return next(arrays)
    parts = [
        _nested_tuple(f"{name}.{index}", part, arrays, instructions)
        for index, part in enumerate(type_.parts)
    ]
    instructions.append(Instruction(name=name, opcode="tuple", type=type_, operands=tuple(parts)))
    return name
