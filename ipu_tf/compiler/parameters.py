"""Places the parameters of a program: weights as their contraction wants them, others alike.

Arrays that meet element by element (a weight, its gradient, its momentum) form a group and should
be aligned. The first instruction that prefers a placement of a member places the group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from ipu_tf.compiler import lowering
from ipu_tf.compiler.blocks import Value, Values
from ipu_tf.compiler.build_state import BuildState
from ipu_tf.compiler.control import array_count
from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module, Role, Type
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays
from ipu_tf.compiler.opcodes import is_elementwise
from ipu_tf.machine.dtypes import DTYPE_BITS
from ipu_tf.planner.plan import PlanDoesNotFit
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.program import Category

_CATEGORIES: Mapping[Role, Category] = {
    "weight": "weights",
    "optimizer_state": "optimizer_state",
    "state": "state",
    "input": "inputs",
    "constant": "constants",
    "host": "inputs",
    "link": "activations",
    "accumulator": "accumulators",
    "held": "accumulators",
    "fifo": "fifos",
}
STREAMED = frozenset[Role]({"input", "host"})
"""Roles of parameters that come from the host for every run."""

PASSING = STREAMED | {"link"}
"""Roles of parameters whose memory is freed after their last read."""

_SAME_ORDER = frozenset({"bitcast", "reshape"})
"""Opcodes that keep the row-major order of elements, which layouts refer to."""

_Name: TypeAlias = tuple[str, int]
"""An array: the instruction that makes it, and its number in the result."""


def place_parameters(build_state: BuildState, module: Module) -> list[Values]:
    """Returns the arrays of every entry parameter, by parameter number."""
    entry = module.entry_computation
    instructions_by_number = {
        i.attributes["parameter_number"]: i for i in entry if i.opcode == "parameter"
    }
    groups = _Groups(module)
    wishes = _wishes(build_state, module, groups, instructions_by_number.values())
    all_values: list[Values] = []
    for number, parameter in enumerate(module.parameters):
        instruction = instructions_by_number[number]
        values = []
        for index, array in enumerate(arrays(instruction.type)):
            group = groups.find((instruction.name, index))
            placement = _placement_for(wishes.get(group), array)
            if placement is None:
                placement = lowering.spread(array, build_state.context)
                wishes.setdefault(group, placement)
            buffer = build_state.new_buffer(
                placement,
                name=parameter.name,
                layer=parameter.layer,
                category=_CATEGORIES[parameter.role],
                always_live=parameter.role not in PASSING,
            )
            values.append(Value(placement=placement, buffer=buffer))
        all_values.append(tuple(values))
    return all_values


def _placement_for(wish: Placement | None, array: Array) -> Placement | None:
    """Returns the preferred placement of one member of a group for another, if that is possible."""
    if wish is None or wish.elements != array.elements:
        return None
    return dataclasses.replace(wish, element_bytes=DTYPE_BITS[array.dtype] // 8)


def _wishes(
    build_state: BuildState,
    module: Module,
    groups: _Groups,
    parameters: Iterable[Instruction],
) -> dict[_Name, Placement]:
    """Returns the preferred placements of groups of parameters, where an instruction has one."""
    elements: dict[_Name, int] = {}
    for parameter in parameters:
        for number, array in enumerate(arrays(parameter.type)):
            elements.setdefault(groups.find((parameter.name, number)), array.elements)
    wishes: dict[_Name, Placement] = {}
    for computation in _called_first_to_last(module):
        context = build_state.context.inside(computation)
        for instruction in computation:
            for index, operand in enumerate(instruction.operands):
                group = groups.find((operand, 0))
                if group in wishes or group not in elements:
                    continue
                wish = _wish(build_state, instruction, index, context)
                if wish is not None and wish.elements == elements[group]:
                    wishes[group] = wish
    return wishes


def _wish(
    build_state: BuildState, instruction: Instruction, index: int, context: LoweringContext
) -> Placement | None:
    """Returns the placement an instruction prefers for an operand, if it has a cost and a plan.

    Lowering decides whether a missing one is an error.
    """
    try:
        return lowering.preferred_placement(instruction, index, context)
    except (LoweringError, PlanDoesNotFit):
        return None


def _called_first_to_last(module: Module) -> Iterator[Computation]:
    """Yields the entry, then the computations that become separate blocks."""
    queue, names = [module.entry], {module.entry}
    while queue:
        computation = module.computations[queue.pop(0)]
        yield computation
        for instruction in computation:
            if instruction.opcode in ("while", "conditional", "call"):
                queue += [name for name in instruction.computations if name not in names]
                names.update(instruction.computations)


class _Groups:
    """Groups of arrays of a module that meet element by element, or are the same array."""

    def __init__(self, module: Module) -> None:
        self._parents: dict[_Name, _Name] = {}
        for computation in _called_first_to_last(module):
            instructions = computation.by_name()
            for instruction in computation:
                self._join_instruction(module, instructions, instruction)

    def find(self, name: _Name) -> _Name:
        """Returns the representative of an array's group."""
        root = name
        while (parent := self._parents.get(root, root)) != root:
            root = parent
        while (parent := self._parents.get(name, name)) != root:
            self._parents[name], name = root, parent
        return root

    def _join(self, one: _Name, other: _Name) -> None:
        self._parents[self.find(other)] = self.find(one)

    def _join_all(self, one: str, other: str, count: int, *, offset: int = 0) -> None:
        """Joins arrays of one result, from `offset` on, with those of another."""
        for number in range(count):
            self._join((one, offset + number), (other, number))

    def _join_instruction(
        self, module: Module, instructions: Mapping[str, Instruction], instruction: Instruction
    ) -> None:
        name, opcode, operands = instruction.name, instruction.opcode, instruction.operands
        if is_elementwise(instruction):
            for operand in operands:
                if _dims(instructions[operand].type) == _dims(instruction.type):
                    self._join((name, 0), (operand, 0))
        elif opcode in _SAME_ORDER:
            if _elements(instructions[operands[0]].type) == _elements(instruction.type):
                self._join((name, 0), (operands[0], 0))
        elif opcode == "tuple":
            offset = 0
            for operand in operands:
                count = array_count(instructions[operand].type)
                self._join_all(name, operand, count, offset=offset)
                offset += count
        elif opcode == "get-tuple-element":
            parts = getattr(instructions[operands[0]].type, "parts", ())
            offset = sum(map(array_count, parts[: instruction.attributes["tuple_index"]]))
            self._join_all(operands[0], name, array_count(instruction.type), offset=offset)
        elif opcode in ("while", "conditional", "call"):
            self._join_callees(module, instruction, instructions)

    def _join_callees(
        self, module: Module, instruction: Instruction, instructions: Mapping[str, Instruction]
    ) -> None:
        """Joins the operands of a call with parameters, and roots with its result."""
        for position, callee in enumerate(instruction.computations):
            computation = module.computations[callee]
            arguments = instruction.operands
            if instruction.opcode == "conditional":
                arguments = arguments[position + 1 : position + 2]
            for inner in computation:
                if inner.opcode == "parameter":
                    operand = arguments[inner.attributes["parameter_number"]]
                    count = array_count(instructions[operand].type)
                    self._join_all(operand, inner.name, count)
            root = computation.by_name()[computation.root]
            if array_count(root.type) == array_count(instruction.type):
                self._join_all(instruction.name, root.name, array_count(root.type))


def _elements(type_: Type) -> int | None:
    return type_.elements if isinstance(type_, Array) else None


def _dims(type_: Type) -> tuple[int, ...] | None:
    return type_.dims if isinstance(type_, Array) else None
