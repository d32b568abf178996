"""The context of lowering rules: the module, the options, and the memory used so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Computation, Instruction
from ipu_tf.compiler.lowering.row_order import RowOrder
from ipu_tf.machine.target import Target
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.tile_program.layouts.footprint import Footprint, add_footprint
from ipu_tf.tile_program.layouts.layout import Layout
from ipu_tf.tile_program.layouts.placement import Placement


class TileBalance:
    """Bytes placed on every tile so far, and the best tiles for the next tensor.

    Counts every placed tensor as if no memory were freed: short-lived tensors spread like
    lasting ones.
    """

    def __init__(self, tiles: int) -> None:
        self._tile_bytes = np.zeros(tiles, np.int64)
        self._first_tiles: dict[Layout, int] = {}

    def add(self, footprint: Footprint) -> None:
        """Counts a tensor. Those on all tiles do not change where the next one fits."""
        if footprint.tiles < len(self._tile_bytes):
            add_footprint(self._tile_bytes, footprint)

    def first_tile(self, tiles: int) -> int:
        """Returns the first of `tiles` consecutive tiles that hold the least together."""
        everywhere = len(self._tile_bytes)
        if tiles >= everywhere:
            return 0
        around = np.concatenate([self._tile_bytes, self._tile_bytes[:tiles]])
        before = np.concatenate([[0], np.cumsum(around)])
        return int(np.argmin(before[tiles : tiles + everywhere] - before[:everywhere]))

    def aligned(self, placement: Placement) -> Placement:
        """Returns a placement from the tile on where the first one of its layout begins."""
        first = self._first_tiles.setdefault(placement.layout, placement.first_tile)
        return dataclasses.replace(placement, first_tile=first)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweringContext:
    """The context of lowering rules for one computation.

    Attributes:
        options: How to plan, and for which chip.
        plans: Plans that tile ops run, by the name of their TensorFlow op.
        computations: The computations of the module.
        instructions: The instructions of the computation, by name.
        balance: Bytes placed on every tile.
        orders: Orders in memory that are known so far, by the name of an instruction: None for one
            that lies as its dimensions say.
        masks: Where the elements of each dropout lie, by what draws its mask.
    """

    options: CompilerOptions
    plans: Mapping[str, tuple[OpShape, Plan]]
    computations: Mapping[str, Computation]
    instructions: Mapping[str, Instruction]
    balance: TileBalance
    orders: dict[str, RowOrder | None] = field(default_factory=dict)
    masks: dict[tuple[str, ...], tuple[Placement, RowOrder | None]] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """The chip."""
        return self.options.target

    def operand(self, instruction: Instruction, index: int) -> Instruction:
        """Returns the instruction that makes an operand."""
        return self.instructions[instruction.operands[index]]

    def first_tile(self, tiles: int) -> int:
        """Returns the first tile of a tensor on `tiles` tiles that keeps memory balanced."""
        return self.balance.first_tile(tiles)

    def aligned(self, result: Placement) -> Placement:
        """Returns the placement of a contraction's result: equal plans begin on the same tile.

        So their results meet without an exchange, as in a residual sum. As in poplibs, where the
        first tile of a plan is 0, or with enableConvDithering a hash of the convolution
        (ConvPlan.cpp, getStartTile).
        """
        return self.balance.aligned(result)

    def inside(self, computation: Computation) -> LoweringContext:
        """Returns the context of another computation.

        Tiles hold no tuples: the arrays of a tuple parameter (the state of a loop, the arguments of
        a branch) count as parameters themselves.
        """
        instructions: dict[str, Instruction] = {}
        for instruction in computation:
            if instruction.opcode == "get-tuple-element":
                whole = instructions[instruction.operands[0]]
                if whole.opcode == "parameter":
                    instruction = instruction.replace(opcode="parameter")
            instructions[instruction.name] = instruction
        return dataclasses.replace(self, instructions=instructions, orders={}, masks={})

    def with_tile_bytes(self, tile_bytes: int) -> LoweringContext:
        """Returns the context of a chip with another amount of memory."""
        chip = dataclasses.replace(self.target, tile_bytes=tile_bytes)
        options = dataclasses.replace(self.options, target=chip)
        return dataclasses.replace(self, options=options, orders={})
