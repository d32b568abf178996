"""An open block: adds nodes, and copies of values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ipu_tf.compiler import lowering
from ipu_tf.compiler.blocks import BufferTable, Node, Value
from ipu_tf.compiler.build_state import BuildState
from ipu_tf.compiler.hlo import Array, Instruction
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.phase import Phase


class OpenBlock:
    """The nodes of one block so far.

    Args:
        build_state: The build state that the blocks of the program share.
        layer: The layer of copies; "" gives them to the layer of the memory they fill.
        phase: Their phase of the training step.
    """

    def __init__(
        self, build_state: BuildState, *, layer: str = "", phase: Phase = "update"
    ) -> None:
        self.build_state = build_state
        self.layer = layer
        self.phase = phase
        self.nodes: list[Node] = []

    def add(self, node: Node) -> int:
        """Returns the index of a new node."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def copy(
        self,
        value: Value,
        *,
        name: str,
        placement: Placement | None = None,
        caller: Instruction | None = None,
    ) -> Value:
        """Returns a copy of a value in a new buffer, which may later merge with the old one.

        Args:
            value: The value.
            name: Name of the copy.
            placement: Placement of the copy; None for that of the value.
            caller: The instruction that needs the copy; None for the block.
        """
        buffers = self.build_state.buffers
        placement = placement or value.placement.stored
        layer = caller.layer if caller else self.layer
        buffer = self.build_state.new_buffer(placement, name=name, layer=layer)
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
        """Returns a node that copies a value into existing memory.

        Args:
            value: The value.
            target: The memory to fill.
            name: Name of the copy.
            caller: The instruction that needs the copy; None for the block.
        """
        build_state = self.build_state
        instruction = Instruction(
            name=name,
            opcode="copy",
            type=Array("u8", (value.placement.bytes,)),
            layer=self.layer or build_state.buffers[target.buffer].layer,
            phase=caller.phase if caller else self.phase,
        )
        supersteps = lowering.relayout(value.placement, target.placement, build_state.context)
        return make_node(instruction, LoweredInstruction(supersteps=supersteps), [value], ())


def make_node(
    instruction: Instruction,
    lowered: LoweredInstruction,
    operands: Sequence[Value],
    writes: tuple[int, ...],
) -> Node:
    """Returns the node of an instruction that reads some values and makes some buffers."""
    return Node(
        instruction=instruction,
        lowered=lowered,
        reads=tuple(dict.fromkeys(value.buffer for value in operands)),
        writes=writes,
        after={value.made_by for value in operands if value.made_by is not None},
    )


def _fills(value: Value, buffers: BufferTable) -> bool:
    """Returns whether a value fills its memory; a view of a part does not."""
    return buffers[value.buffer].footprint == value.placement.footprint
