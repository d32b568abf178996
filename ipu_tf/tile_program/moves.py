"""Cycles of the passes of a step, and the wait for transfers that run beside them."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.tile_program.phase import Phase
from ipu_tf.tile_program.program import TileProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """A count, or cycles, for each pass.

    Attributes:
        forward: In the forward pass of a micro-batch.
        backward: In its backward pass, recomputation included.
        update: In the weight update.
    """

    forward: int = 0
    backward: int = 0
    update: int = 0

    @classmethod
    def of(cls, phase: Phase, amount: int) -> Moves:
        """Returns the entry of one phase, with zeros for the others."""
        return cls(**{phase: amount})

    def __add__(self, other: Moves) -> Moves:
        return Moves(
            forward=self.forward + other.forward,
            backward=self.backward + other.backward,
            update=self.update + other.update,
        )

    def times(self, factor: int) -> Moves:
        """Returns each entry multiplied by a factor."""
        return Moves(
            forward=factor * self.forward,
            backward=factor * self.backward,
            update=factor * self.update,
        )


NO_MOVES = Moves()


def step_cycles(program: TileProgram) -> Moves:
    """Returns the cycles of a program's steps, without transfers that run beside them."""
    return sum((Moves.of(step.phase, step.cycles) for step in program.steps), NO_MOVES)


def overlapped_cycles(program: TileProgram) -> Moves:
    """Returns the cycles of transfers that I/O tiles make beside the steps of a program."""
    return sum((Moves.of(step.phase, step.overlapped_cycles) for step in program.steps), NO_MOVES)


def ahead_cycles(program: TileProgram) -> Moves:
    """Returns the cycles of the host's connection to the gateway beside the steps of a program."""
    return sum((Moves.of(step.phase, step.ahead_cycles) for step in program.steps), NO_MOVES)


def waits(busy: Moves, overlapped: Moves) -> Moves:
    """Returns the cycles in which tiles wait for transfers that run beside their work.

    The data of the next micro-batch moves beside both passes of the current one, so a micro-batch
    takes the longer of the two; its wait counts for the pass that fetches more. The transfers of
    the weight update run beside the update.

    Args:
        busy: Cycles of the passes without the wait.
        overlapped: Cycles of the transfers beside them.
    """
    late = overlapped.forward + overlapped.backward - busy.forward - busy.backward
    phase: Phase = "forward" if overlapped.forward >= overlapped.backward else "backward"
    return Moves.of(phase, max(0, late)) + Moves(update=max(0, overlapped.update - busy.update))
