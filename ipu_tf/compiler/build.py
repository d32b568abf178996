"""Builds blocks: lowers the instructions of a computation one by one, operands first.

Calls and maps become part of the block that holds them; loops and conditionals, in
`ipu_tf.compiler.control`, become nodes with blocks of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ipu_tf.compiler import control, in_place, lowering
from ipu_tf.compiler.blocks import Block, Buffers, Node, Value, Values
from ipu_tf.compiler.hlo import Array, Computation, Instruction, Phase
from ipu_tf.compiler.layouts.placement import Placement
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.opcodes import is_elementwise
from ipu_tf.compiler.ordering import schedule_block
from ipu_tf.compiler.session import Session
from ipu_tf.compiler.tile_program import Category

_PASSED_ON = frozenset({"tuple", "opt-barrier"})
"""Opcodes whose result is their operands' arrays, one after the other."""


_CATEGORIES: Mapping[str, Category] = {"constant": "constants", "infeed": "inputs"}
"""What the results of an opcode are, where they are no activations."""


class BlockBuilder:
    """The nodes of one block in the making.

    Args:
        session: What the blocks of the program share.
        layer: The layer that copies belong to; "" gives them to the layer of what they fill.
        phase: Their part of the training step.
    """

    def __init__(self, session: Session, *, layer: str = "", phase: Phase = "update") -> None:
        self.session = session
        self.layer = layer
        self.phase = phase
        self.nodes: list[Node] = []

    def add(self, node: Node) -> int:
        """Returns the index of a new node."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def run(
        self,
        computation: Computation,
        arguments: Sequence[Values],
        targets: Mapping[int, Value],
    ) -> Values:
        """Lowers a computation into this block.

        Args:
            computation: The computation.
            arguments: The arrays of every parameter, by parameter number.
            targets: Where results are to lie in the end, by the number of the array in the result.

        Returns:
            The arrays of its root.
        """
        instructions = computation.by_name()
        context = self.session.context.inside(computation)
        wanted = control.inner_targets(computation, instructions, targets)
        values: dict[str, Values] = {}
        for instruction in computation:
            if instruction.opcode == "parameter":
                made = arguments[instruction.attributes["parameter_number"]]
            else:
                operands = [values[name] for name in instruction.operands]
                inner: Mapping[int, Value] = wanted.get(instruction.name, {})
                if instruction.opcode == "conditional":
                    inner = control.reachable_targets(instruction, computation, values, inner)
                made = self._instruction(instruction, operands, context, inner)
            values[instruction.name] = made
        return values[computation.root]

    def _instruction(
        self,
        instruction: Instruction,
        operands: list[Values],
        context: LoweringContext,
        targets: Mapping[int, Value],
    ) -> Values:
        """Returns the arrays of an instruction's result."""
        opcode = instruction.opcode
        if opcode in _PASSED_ON:
            return tuple(value for values in operands for value in values)
        if opcode == "get-tuple-element":
            return _element(instruction, operands[0], context)
        if opcode == "call":
            return self.run(context.computations[instruction.computations[0]], operands, targets)
        if opcode == "map":
            return self.run(control.mapped(instruction, context), operands, {})
        if opcode == "while":
            return control.add_loop(self, instruction, operands[0], context)
        if opcode == "conditional":
            return control.add_conditional(self, instruction, operands, context, targets)
        return self._leaf(instruction, operands, context)

    def _leaf(
        self, instruction: Instruction, operands: list[Values], context: LoweringContext
    ) -> Values:
        """Returns the arrays of an instruction that a lowering rule knows."""
        read = [value for values in operands for value in values]
        lowered = self.session.lower(instruction, [value.placement for value in read], context)
        if lowered.view_of is not None:
            return self._view(instruction, lowered, operands[lowered.view_of][0], read)
        is_constant = instruction.opcode == "constant"
        writes = tuple(
            self.session.new_buffer(
                placement,
                name=instruction.name,
                layer=instruction.layer,
                category=_CATEGORIES.get(instruction.opcode, "activations"),
                always_live=is_constant,
            )
            for placement in lowered.results
        )
        if is_constant:
            made_by = None
        else:
            node = make_node(instruction, lowered, read, writes)
            node.overwritable = self._overwritable(instruction, lowered, operands)
            made_by = self.add(node)
        return tuple(
            Value(placement=placement, buffer=buffer, made_by=made_by)
            for placement, buffer in zip(lowered.results, writes, strict=True)
        )

    def _view(
        self,
        instruction: Instruction,
        lowered: LoweredInstruction,
        source: Value,
        read: Sequence[Value],
    ) -> Values:
        """Returns the arrays of a result that lies in an operand's memory."""
        made_by = source.made_by
        if lowered.supersteps:
            made_by = self.add(make_node(instruction, lowered, read, ()))
        return tuple(
            Value(placement=placement, buffer=source.buffer, made_by=made_by)
            for placement in lowered.results
        )

    def _overwritable(
        self, instruction: Instruction, lowered: LoweredInstruction, operands: list[Values]
    ) -> tuple[int, ...]:
        """Returns the buffers of operands that the first result may be made in."""
        if lowered.in_place is None:
            return ()
        candidates = [operands[lowered.in_place]]
        if is_elementwise(instruction):
            candidates += operands
        result = lowered.results[0]
        buffers = self.session.buffers
        return tuple(
            dict.fromkeys(
                value.buffer
                for values in candidates
                for value in values
                if value.placement == result and buffers[value.buffer].footprint == result.footprint
            )
        )

    def finish(
        self, results: Values, arguments: Sequence[Value], targets: Mapping[int, Value]
    ) -> Block:
        """Returns the block, its results stored where they belong and its nodes ordered.

        Args:
            results: The arrays of the root.
            arguments: What belongs to the caller.
            targets: Where results are to lie in the end, by their number.
        """
        stored = in_place.store(self, results, targets)
        block = Block(
            nodes=self.nodes,
            results=stored,
            arguments=frozenset(value.buffer for value in arguments),
        )
        schedule_block(block, self.session.buffers)
        return block

    def spawn(self, instruction: Instruction) -> BlockBuilder:
        """Returns the builder of a block that an instruction of this one runs."""
        return BlockBuilder(self.session, layer=instruction.layer, phase=instruction.phase)

    def copy(
        self,
        value: Value,
        *,
        name: str,
        placement: Placement | None = None,
        caller: Instruction | None = None,
    ) -> Value:
        """Returns a copy of a value in a buffer of its own, which may turn out to be the same.

        Args:
            value: What to copy.
            name: Name of the copy.
            placement: How the copy lies; None for like the value.
            caller: The instruction that needs the copy; None for the block.
        """
        buffers = self.session.buffers
        placement = placement or value.placement.stored
        layer = caller.layer if caller else self.layer
        buffer = self.session.new_buffer(placement, name=name, layer=layer)
        target = Value(placement=placement, buffer=buffer)
        node = self.move(value, target, name=name, caller=caller)
        node.writes = (buffer,)
        if placement == value.placement and _fills(value, buffers):
            node.overwritable = (value.buffer,)
            node.vanishes = True
        return dataclasses.replace(target, made_by=self.add(node))

    def move(
        self, value: Value, target: Value, *, name: str, caller: Instruction | None = None
    ) -> Node:
        """Returns a node that copies a value into memory that is there already.

        Args:
            value: What to copy.
            target: Where it goes.
            name: Name of the copy.
            caller: The instruction that needs the copy; None for the block.
        """
        session = self.session
        instruction = Instruction(
            name=name,
            opcode="copy",
            type=Array("u8", (value.placement.bytes,)),
            layer=self.layer or session.buffers[target.buffer].layer,
            phase=caller.phase if caller else self.phase,
        )
        supersteps = lowering.relayout(value.placement, target.placement, session.context)
        return make_node(instruction, LoweredInstruction(supersteps=supersteps), [value], ())


def make_node(
    instruction: Instruction,
    lowered: LoweredInstruction,
    read: Sequence[Value],
    writes: tuple[int, ...],
) -> Node:
    """Returns the node of an instruction that reads some values and makes some buffers."""
    return Node(
        instruction=instruction,
        lowered=lowered,
        reads=tuple(dict.fromkeys(value.buffer for value in read)),
        writes=writes,
        after={value.made_by for value in read if value.made_by is not None},
    )


def _fills(value: Value, buffers: Buffers) -> bool:
    """Returns whether a value is all that its memory holds; a view of a part is not."""
    return buffers[value.buffer].footprint == value.placement.footprint


def _element(instruction: Instruction, values: Values, context: LoweringContext) -> Values:
    """Returns the arrays of one part of a tuple."""
    type_ = context.operand(instruction, 0).type
    if isinstance(type_, Array):
        raise ValueError(
            f"'{instruction.name}' takes an element of '{instruction.operands[0]}', which is no "
            f"tuple. Received: {type_!r}."
        )
    index = instruction.attributes["tuple_index"]
    first = sum(map(control.array_count, type_.parts[:index]))
    return values[first : first + control.array_count(type_.parts[index])]
