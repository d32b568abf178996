"""Which runs of a program, and which iterations of its loops, make up an update of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The place of a computation in training.

    Attributes:
        update: Number of the update of the weights, from 1; None where none is made.
        micro_batch: Number of the micro-batch in its update, from 0; None without accumulation.
        replica: Number of the replica; None where one run is that of all.
    """

    update: int | None = None
    micro_batch: int | None = None
    replica: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRuns:
    """The runs of a program, or the iterations of its outermost loop, that make up an update.

    Attributes:
        micro_batches: Micro-batches of an update, one after the other.
        replicas: Runs of a micro-batch: replicas, or groups of them, that take turns.
        group: Replicas of a run.
        is_in_loop: Whether each iteration of the program's outermost loop is a micro-batch.
        pipeline_updates: Updates of a run of a pipeline outside of Keras, whose loops are those of
            updates, if there are several, and of micro-batches; None for other programs.
    """

    micro_batches: int = 1
    replicas: int = 1
    group: int = 1
    is_in_loop: bool = False
    pipeline_updates: int | None = None

    def moment(self, run: int, iterations: Sequence[int] = (), of_run: int = 1) -> Moment:
        """Returns the place of a computation.

        Args:
            run: Number of the run, from 1.
            iterations: Numbers of the iterations of the loops around it, the outermost first.
            of_run: Iterations of the outermost loop in a run.
        """
        if self.pipeline_updates is not None:
            return self._of_pipeline(run, list(iterations))
        turn, replica = divmod(run - 1, self.replicas)
        if self.is_in_loop:
            turn = turn * of_run + (iterations[0] if iterations else 0)
        update, micro_batch = divmod(turn, self.micro_batches)
        return Moment(
            update=update + 1,
            micro_batch=micro_batch if self.micro_batches > 1 else None,
            replica=replica if self.replicas > 1 and self.group == 1 else None,
        )

    def _of_pipeline(self, run: int, iterations: list[int]) -> Moment:
        updates = self.pipeline_updates or 1
        update = iterations.pop(0) if updates > 1 and iterations else 0
        return Moment(
            update=(run - 1) * updates + update + 1,
            micro_batch=iterations[0] if iterations else None,
        )
