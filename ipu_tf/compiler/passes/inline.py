"""Puts the instructions of called computations where they are called."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping

from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import programs, rename_operands


def run(module: Module) -> Module:
    """Returns the module without `call`s: each becomes a copy of the called computation."""
    uses = collections.Counter(
        callee for c in module.computations.values() for i in c for callee in i.computations
    )
    computations: dict[str, Computation] = dict(module.computations)
    # Callees first, so the copied computations have no calls themselves.
    for name in _callees_first(module):
        computations[name] = _inlined(computations[name], computations, uses)
    callees = {callee for c in computations.values() for i in c for callee in i.computations}
    reachable = {
        name: c for name, c in computations.items() if name in callees or name == module.entry
    }
    return module.replace(computations=reachable)


def _callees_first(module: Module) -> Iterator[str]:
    visits: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in visits:
            return
        visits.add(name)
        for instruction in module.computations[name]:
            for callee in instruction.computations:
                yield from visit(callee)
        yield name

    for name in programs(module):
        yield from visit(name)


def _inlined(
    computation: Computation, computations: Mapping[str, Computation], uses: Mapping[str, int]
) -> Computation:
    if all(instruction.opcode != "call" for instruction in computation):
        return computation
    used_names: set[str] = {i.name for c in computations.values() for i in c}
    aliases: dict[str, str] = {}
    instructions: list[Instruction] = []
    for instruction in computation:
        copy = rename_operands(instruction, aliases)
        if instruction.opcode != "call":
            instructions.append(copy)
            continue
        (callee,) = instruction.computations
        body, root = _body(computations[callee], copy, used_names, is_only=uses[callee] == 1)
        instructions += body
        aliases[instruction.name] = root
    root = aliases.get(computation.root, computation.root)
    return Computation(name=computation.name, instructions=tuple(instructions), root=root)


def _body(
    callee: Computation, call: Instruction, used_names: set[str], *, is_only: bool
) -> tuple[list[Instruction], str]:
    """Returns the instructions of one call and the name of its result."""
    names: dict[str, str] = {}
    body = []
    for instruction in callee:
        if instruction.opcode == "parameter":
            names[instruction.name] = call.operands[instruction.attributes["parameter_number"]]
            continue
        name = instruction.name if is_only else _unique(instruction.name, used_names)
        inlined = rename_operands(instruction, names).replace(name=name)
        names[instruction.name] = name
        body.append(inlined)
    return body, names[callee.root]


def _unique(name: str, used_names: set[str]) -> str:
    unique = next(n for n in (f"{name}.i{k}" for k in itertools.count()) if n not in used_names)
    used_names.add(unique)
    return unique
