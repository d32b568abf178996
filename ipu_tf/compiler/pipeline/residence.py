"""When the variables of a stage are on its tiles: all the time, or only around their uses.

A variable in streaming memory, or shared out over replicas, is whole on the tiles from the first
step of a pass that reads or writes it to the last. I/O tiles hold the buffers of transfers that run
ahead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipu_tf.compiler.hlo import Instruction, Module, Parameter
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.layouts.footprint import Footprint, add_footprint
from ipu_tf.tile_program.memory import tile_memory
from ipu_tf.tile_program.phase import Phase
from ipu_tf.tile_program.program import Tensor, TileProgram

Part: TypeAlias = Phase | Literal["recomputed"]
"""A part of a step that loads a variable for itself: a phase, or the recomputation of a backward
pass."""

VIEWS = frozenset({"bitcast", "broadcast", "reshape", "transpose"})
"""Opcodes whose result is recomputed from the operand rather than kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableUse:
    """The use of a variable in one pass.

    Attributes:
        loads: Whether the pass reads the value that an earlier pass has left.
        stores: Whether the pass makes a new value.
        steps: The first and the last step of the program that use it.
    """

    loads: bool
    stores: bool
    steps: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageVariable:
    """A variable of a stage.

    Attributes:
        parameter: The parameter of the stage's module.
        bytes: Its bytes.
        uses: Its use in every part of a step.
    """

    parameter: Parameter
    bytes: int
    uses: Mapping[Part, VariableUse]


def variables(module: Module, program: TileProgram) -> tuple[StageVariable, ...]:
    """Returns the parameters of a stage and how its passes use them, by parameter number.

    Args:
        module: The module of the stage.
        program: The module, compiled.
    """
    entry = module.entry_computation
    by_name = entry.by_name()
    read_by = entry.users
    results = by_name[entry.root].operands
    steps = _Steps(program)
    variables_by_number: dict[int, StageVariable] = {}
    for instruction in entry:
        if instruction.opcode != "parameter":
            continue
        number = instruction.attributes["parameter_number"]
        parameter = module.parameters[number]
        new = "" if parameter.updated_by is None else results[parameter.updated_by]
        while new and by_name[new].opcode in VIEWS:
            new = by_name[new].operands[0]
        new_value = by_name[new] if new != instruction.name and new else None
        old_readers = list(_readers(instruction.name, read_by, entry.root))
        new_readers = list(_readers(new, read_by, entry.root)) if new_value else []
        variables_by_number[number] = StageVariable(
            parameter=parameter,
            bytes=instruction.type.bytes,
            uses=_uses(old_readers, new_value, new_readers, steps),
        )
    return tuple(variables_by_number[number] for number in sorted(variables_by_number))


def _readers(
    name: str, read_by: Mapping[str, Sequence[Instruction]], root: str
) -> Iterator[Instruction]:
    """Yields the readers of a value, or of a view of it."""
    for reader in read_by[name]:
        if reader.name == root:
            continue
        if reader.opcode in VIEWS:
            yield from _readers(reader.name, read_by, root)
        else:
            yield reader


def _uses(
    old_readers: Sequence[Instruction],
    new_value: Instruction | None,
    new_readers: Sequence[Instruction],
    steps: _Steps,
) -> dict[Part, VariableUse]:
    """Returns the uses of a variable, from the readers of its old value, the maker of its new one,
    and the readers of that."""
    touching: dict[Part, list[str]] = {}
    loads = set(map(_part_of, old_readers))
    for reader in (*old_readers, *new_readers, *([new_value] if new_value else [])):
        touching.setdefault(_part_of(reader), []).append(reader.name)
    if new_value is not None:
        loads |= {_part_of(reader) for reader in new_readers} - {_part_of(new_value)}
    return {
        part: VariableUse(
            loads=part in loads,
            stores=new_value is not None and _part_of(new_value) == part,
            steps=steps.around(names, part),
        )
        for part, names in touching.items()
    }


def _part_of(instruction: Instruction) -> Part:
    return "recomputed" if instruction.recomputed else instruction.phase


class _Steps:
    """Finds the steps of instructions."""

    def __init__(self, program: TileProgram) -> None:
        self._of_names: dict[str, list[int]] = {}
        self._of_parts: dict[Part, list[int]] = {}
        for index, step in enumerate(program.steps):
            self._of_names.setdefault(step.name, []).append(index)
            part: Part = "recomputed" if step.recomputed else step.phase
            self._of_parts.setdefault(part, []).append(index)

    def around(self, names: Iterable[str], part: Part) -> tuple[int, int]:
        """Returns the first and the last step of instructions.

        An instruction that is no step itself, such as a loop, stands for the whole part.
        """
        whole = self._of_parts.get(part, [0])
        steps = [index for name in names for index in self._of_names.get(name, whole)]
        return min(steps), max(steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residence:
    """The place of a variable while nothing uses it.

    Attributes:
        streams: Whether it is in streaming memory; otherwise on the tiles.
        parts: Number of parts it is shared out in. The update works on parts, other passes on
            the whole.
        elsewhere: Whether another stage of the IPU holds it.
    """

    streams: bool = False
    parts: int = 1
    elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A variable that is not always on the tiles as a whole.

    Attributes:
        variable: The variable.
        place: Its place.
    """

    variable: StageVariable
    place: Residence


def with_shares(program: TileProgram, shares: Mapping[str, Share]) -> TileProgram:
    """Returns a program whose variables are on its tiles only in part, or only around their uses.

    Args:
        program: The program.
        shares: The variables, by the names of their parameters.
    """
    if not shares:
        return program
    always_live = {
        category: bytes_.copy() for category, bytes_ in program.memory.always_live.items()
    }
    tensors: list[Tensor] = []
    for tensor in program.tensors:
        if tensor.always_live:
            add_footprint(always_live[tensor.category], tensor.footprint, -1)
        share = shares.get(tensor.name) if tensor.always_live else None
        tensors += [tensor] if share is None else _at_times(tensor, share)
    memory = tile_memory(
        tensors, steps=len(program.steps), target=program.target, program_bytes=always_live
    )
    return dataclasses.replace(program, tensors=tuple(tensors), memory=memory)


def _at_times(tensor: Tensor, share: Share) -> Iterator[Tensor]:
    """Yields the remaining lifetimes of a tensor that was always live."""
    place = share.place
    if place.elsewhere:
        return
    if not place.streams:
        yield _part(tensor, place.parts)
    for part, use in share.variable.uses.items():
        parts = place.parts if part == "update" else 1
        if not place.streams and parts == place.parts:
            continue  # That part is always there.
        first, last = use.steps
        yield dataclasses.replace(
            _part(tensor, parts), first_step=first, last_step=last, always_live=False
        )


def _part(tensor: Tensor, parts: int) -> Tensor:
    """Returns one of `parts` equal parts of a tensor."""
    whole = tensor.footprint
    footprint = Footprint(
        first_tile=whole.first_tile,
        tiles=whole.tiles,
        tile_bytes=ceil_div(whole.tile_bytes, parts),
    )
    return dataclasses.replace(tensor, footprint=footprint, bytes=ceil_div(tensor.bytes, parts))
