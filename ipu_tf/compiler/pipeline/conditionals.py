"""Splits the conditionals of a weight update, so that each stage branches over its own weights.

An optimizer may update all weights in one branch: a loss scale optimizer does so if all gradients
are finite. No IPU has all weights, so every stage gets the conditional with its own results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Computation, Instruction, Module, TupleType
from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.rewrite import (
    has_side_effect,
    with_instructions,
    with_side_effects,
)
from ipu_tf.compiler.pipeline.assignment import layer_stage
from ipu_tf.compiler.pipeline.branches import Branch


def split_conditionals(
    module: Module, stage_of_layers: Mapping[str, int]
) -> tuple[Module, Mapping[str, int]]:
    """Returns a step with a conditional of the update for each stage, and the conditionals' stages.

    A result belongs to the stage of the weight that it becomes, or else of the layer that makes
    it. Results of no stage share one conditional. A conditional stays whole if its branches have
    side effects, or do not go from a tuple to a tuple.

    Args:
        module: The step, prepared.
        stage_of_layers: Stage of each layer by its path.
    """
    stages: dict[str, int] = {}
    while split := _next(module, stage_of_layers):
        conditional, parts = split
        # The instructions moved before it may include a conditional, too.
        module = _split(module, conditional, parts)
        stages |= {part.name: part.stage for part in parts if part.stage is not None}
    return dead_code.run(module), stages


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The results of a conditional that belong to one stage.

    Attributes:
        name: Name of the conditional that makes them.
        stage: The stage; None if they belong to none.
        numbers: Their numbers among the results of the whole conditional.
    """

    name: str
    stage: int | None
    numbers: tuple[int, ...]


def _next(
    module: Module, stage_of_layers: Mapping[str, int]
) -> tuple[Instruction, list[_Part]] | None:
    """Returns the first conditional that several stages read, and its parts, or None."""
    effects = with_side_effects(module)
    for instruction in module.entry_computation:
        if instruction.opcode != "conditional" or instruction.phase != "update":
            continue
        if has_side_effect(instruction, effects) or not _is_of_tuples(module, instruction):
            continue
        parts = _parts(module, instruction, stage_of_layers)
        if len(parts) > 1:
            return instruction, parts
    return None


def _is_of_tuples(module: Module, conditional: Instruction) -> bool:
    """Whether the arguments and the results of a conditional are tuples."""
    entry = module.entry_computation
    by_name = entry.by_name()
    return (
        all(reader.opcode == "get-tuple-element" for reader in entry.users[conditional.name])
        and all(by_name[name].opcode == "tuple" for name in conditional.operands[1:])
        and all(_takes_and_gives_a_tuple(module.computations[c]) for c in conditional.computations)
    )


def _takes_and_gives_a_tuple(branch: Computation) -> bool:
    by_name, read_by = branch.by_name(), branch.users
    parameters = [i for i in branch if i.opcode == "parameter"]
    readers = [reader for parameter in parameters for reader in read_by[parameter.name]]
    return by_name[branch.root].opcode == "tuple" and all(
        reader.opcode == "get-tuple-element" for reader in readers
    )


def _parts(
    module: Module, conditional: Instruction, stage_of_layers: Mapping[str, int]
) -> list[_Part]:
    """Returns the results of a conditional that anyone reads, by their stages."""
    entry = module.entry_computation
    results = entry.by_name()[entry.root].operands
    of_variables = {
        results[parameter.updated_by]: parameter.layer
        for parameter in module.parameters
        if parameter.updated_by is not None
    }
    numbers_of_stages: dict[int | None, list[int]] = {}
    for reader in entry.users[conditional.name]:
        number = reader.attributes["tuple_index"]
        layers = [of_variables.get(reader.name, ""), *_makers(module, conditional, number)]
        stages = (layer_stage(layer, stage_of_layers) for layer in layers)
        stage = next((one for one in stages if one is not None), None)
        numbers_of_stages.setdefault(stage, []).append(number)
    return [
        _Part(
            name=f"{conditional.name}.{'rest' if stage is None else f'stage{stage}'}",
            stage=stage,
            numbers=tuple(dict.fromkeys(numbers)),
        )
        for stage, numbers in numbers_of_stages.items()
    ]


def _makers(module: Module, conditional: Instruction, number: int) -> Iterator[str]:
    """Yields the layers of the instructions that make a result in the branches."""
    for name in conditional.computations:
        by_name = module.computations[name].by_name()
        yield by_name[by_name[module.computations[name].root].operands[number]].layer


def _split(module: Module, whole: Instruction, parts: list[_Part]) -> Module:
    """Returns the module with one conditional for each part in place of the whole one."""
    by_name = module.entry_computation.by_name()
    branches = [
        Branch(module.computations[name], by_name[arguments], [part.numbers for part in parts])
        for name, arguments in zip(whole.computations, whole.operands[1:], strict=True)
    ]
    new_instructions = [instruction for branch in branches for instruction in branch.before]
    types = {i.name: i.type for i in (*module.entry_computation, *new_instructions)}
    computations = dict(module.computations)
    for part in parts:
        callees, arguments = [], []
        for index, branch in enumerate(branches):
            computation, operands = branch.part(part.numbers, f"{part.name}.{index}")
            computations[computation.name] = computation
            callees.append(computation)
            arguments.append(
                whole.replace(
                    name=f"{part.name}.{index}",
                    opcode="tuple",
                    type=TupleType(tuple(types[operand] for operand in operands)),
                    operands=operands,
                    computations=(),
                )
            )
        conditional = whole.replace(
            name=part.name,
            type=callees[0].by_name()[callees[0].root].type,
            operands=(whole.operands[0], *(argument.name for argument in arguments)),
            computations=tuple(computation.name for computation in callees),
        )
        new_instructions += [*arguments, conditional]
    entry = module.entry_computation
    computations[entry.name] = with_instructions(
        entry, _with_parts(entry, whole, parts, new_instructions)
    )
    return module.replace(computations=computations)


def _with_parts(
    entry: Computation,
    whole: Instruction,
    parts: Iterable[_Part],
    new_instructions: Iterable[Instruction],
) -> Iterator[Instruction]:
    """Yields the instructions of the entry, others in place of a conditional."""
    places = {
        number: (part.name, place) for part in parts for place, number in enumerate(part.numbers)
    }
    for instruction in entry:
        if instruction.name == whole.name:
            yield from new_instructions
        elif whole.name in instruction.operands:
            name, place = places[instruction.attributes["tuple_index"]]
            yield instruction.replace(operands=(name,), attributes={"tuple_index": place})
        else:
            yield instruction
