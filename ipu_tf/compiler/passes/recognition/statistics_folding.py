"""Computes what a prediction makes of moving statistics and weights alone when they are loaded.

The scaled filters and the biases of folded norms are the same in every call, as the variables are.
They take the place of the variables in memory, as where a graph is frozen for inference: PopART
folds the norms of such a graph when it compiles it. A step that updates a variable keeps computing.
"""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.compiler.hlo import Instruction, Module, Parameter
from ipu_tf.compiler.passes.rewrite import (
    has_side_effect,
    with_instructions,
    with_side_effects,
)

_VARIABLE_ROLES = frozenset({"state", "weight"})
_NO_WORK = frozenset({"bitcast", "broadcast", "constant", "parameter", "reshape"})


def run(module: Module) -> Module:
    """Returns the module whose parameters are the results that depend on variables alone."""
    if any(parameter.updated_by is not None for parameter in module.parameters):
        return module
    entry = module.entry_computation
    read_by, roles = entry.users, _variable_roles(module)
    results = {
        instruction.name
        for instruction in entry
        if "state" in roles.get(instruction.name, ())
        and instruction.opcode not in _NO_WORK
        and instruction.name != entry.root
        and any(reader.name not in roles for reader in read_by[instruction.name])
    }
    if not results:
        return module
    live, parameters = _live_instructions(module, results), list(module.parameters)
    instructions, parameters_in_order = [], []
    for instruction in live:
        if instruction.name in results:
            layer = instruction.layer
            parameters.append(Parameter(name=instruction.name, role="weight", layer=layer))
            number = len(parameters) - 1
            instruction = instruction.replace(
                opcode="parameter",
                operands=(),
                computations=(),
                attributes={"parameter_number": number},
            )
        if instruction.opcode == "parameter":
            parameters_in_order.append(parameters[instruction.attributes["parameter_number"]])
            place = {"parameter_number": len(parameters_in_order) - 1}
            instruction = instruction.replace(attributes={**instruction.attributes, **place})
        instructions.append(instruction)
    computations = {**module.computations, entry.name: with_instructions(entry, instructions)}
    return module.replace(computations=computations, parameters=tuple(parameters_in_order))


def _variable_roles(module: Module) -> Mapping[str, frozenset[str]]:
    """Returns the roles of the variables that results depend on, of those that depend on no other
    parameter, by the name of their instruction."""
    roles: dict[str, frozenset[str]] = {}
    for instruction in module.entry_computation:
        if instruction.opcode == "parameter":
            role = module.parameters[instruction.attributes["parameter_number"]].role
            if role in _VARIABLE_ROLES:
                roles[instruction.name] = frozenset({role})
        elif instruction.opcode == "constant":
            roles[instruction.name] = frozenset()
        elif instruction.operands and all(name in roles for name in instruction.operands):
            roles[instruction.name] = frozenset().union(*(roles[n] for n in instruction.operands))
    return roles


def _live_instructions(module: Module, results: set[str]) -> list[Instruction]:
    """Returns the instructions that are left, in order, without variables that only made are of."""
    entry = module.entry_computation
    effects = with_side_effects(module)
    live: list[Instruction] = []
    alive = {entry.root}
    for instruction in reversed(entry.instructions):
        is_input = instruction.opcode == "parameter" and (
            module.parameters[instruction.attributes["parameter_number"]].role
            not in _VARIABLE_ROLES
        )
        if instruction.name in alive or is_input or has_side_effect(instruction, effects):
            live.append(instruction)
            if instruction.name not in results:
                alive.update(instruction.operands)
    return live[::-1]
