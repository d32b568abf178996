"""State that the blocks of one program share while it is built: buffers, context, notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ipu_tf.compiler import lowering
from ipu_tf.compiler.blocks import Buffer, BufferTable
from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays
from ipu_tf.planner.plan import PlanDoesNotFit
from ipu_tf.tile_program.errors import op_out_of_memory
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.program import Category

_LARGEST_GROWTH = 1 << 40
"""Multiple of a tile's memory beyond which planning of an op that does not fit stops."""


@dataclass(slots=True, kw_only=True)
class BuildState:
    """State that the blocks of one program share.

    Attributes:
        program: Name of the program, for messages.
        context: Options, plans and computations.
        updates_last: Whether the update of weights runs once for several micro-batches.
        buffers: All buffers.
        notes: Caveats for readers of the figures; keys in the order of their discovery.
        unsupported: Why an opcode has no cost, by opcode and layer, in the order of discovery.
    """

    program: str
    context: LoweringContext
    updates_last: bool = False
    buffers: BufferTable = field(default_factory=BufferTable)
    notes: dict[str, None] = field(default_factory=dict)
    unsupported: dict[str, dict[str, str]] = field(default_factory=dict)

    def new_buffer(
        self,
        placement: Placement,
        *,
        name: str,
        layer: str,
        category: Category = "activations",
        always_live: bool = False,
    ) -> int:
        """Returns the number of a new buffer for a placement, and counts its memory as used."""
        footprint = placement.footprint
        self.context.balance.add(footprint)
        return self.buffers.add(
            Buffer(
                name=name,
                layer=layer,
                category=category,
                footprint=footprint,
                bytes=placement.bytes,
                always_live=always_live,
            )
        )

    def lower(
        self, instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
    ) -> LoweredInstruction:
        """Lowers an instruction; collects it if it has no cost.

        Raises:
            IPUOutOfMemoryError: No plan fits, and the options make that an error.
        """
        try:
            return lowering.lower(instruction, operands, context)
        except LoweringError as error:
            layers = self.unsupported.setdefault(instruction.opcode, {})
            layers.setdefault(error.layer or instruction.name, error.reason)
            return LoweredInstruction(
                results=tuple(lowering.spread(array, context) for array in arrays(instruction.type))
            )
        except PlanDoesNotFit as error:
            if context.options.out_of_memory == "raise":
                raise op_out_of_memory(
                    self.program,
                    context.target.chip,
                    layer=instruction.layer,
                    op_name=instruction.op_name or instruction.name,
                    reason=str(error),
                ) from None
            return self._lower_oversized(instruction, operands, context, error)

    def _lower_oversized(
        self,
        instruction: Instruction,
        operands: Sequence[Placement],
        context: LoweringContext,
        error: PlanDoesNotFit,
    ) -> LoweredInstruction:
        """Lowers an instruction for tiles of just enough memory, in powers of two."""
        growth = 2
        while growth <= _LARGEST_GROWTH:
            roomy = context.with_tile_bytes(context.target.tile_bytes * growth)
            try:
                return lowering.lower(instruction, operands, roomy)
            except PlanDoesNotFit:
                growth *= 2
        raise error
