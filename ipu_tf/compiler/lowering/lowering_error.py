"""Errors of lowering."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Instruction


class LoweringError(NotImplementedError):
    """An instruction has no cost on the machine.

    Attributes:
        instruction: The instruction.
        layer: Path of its Keras layer, or the TensorFlow op that it comes from.
        reason: The reason, and what to do instead.
    """

    def __init__(self, instruction: Instruction, reason: str) -> None:
        self.instruction = instruction
        self.layer = instruction.layer or instruction.op_name
        self.reason = reason
        where = f" of '{self.layer}'" if self.layer else ""
        super().__init__(
            f"'{instruction.name}'{where} has no cost on the machine: {reason} "
            f"Received: opcode {instruction.opcode!r}."
        )
