"""Schedules: when each stage works on which micro-batch.

Models a pipeline in lockstep: time is cut into slots, each stage does at most one pass in a slot,
and all IPUs sync after each slot to exchange their results. Does not model an IPU that runs ahead
of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipu_tf.tile_program.device_program import Schedule

Pass: TypeAlias = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One pass of one stage.

    Attributes:
        stage: The stage.
        direction: Forward or backward.
        micro_batch: Number of the micro-batch, from 0.
    """

    stage: int
    direction: Pass
    micro_batch: int


Slot: TypeAlias = tuple[Work, ...]


def slots(
    schedule: Schedule, *, stages: int, micro_batches: int, training: bool = True
) -> Iterator[Slot]:
    """Yields the passes that run side by side, slot after slot, for one weight update.

    Args:
        schedule: The order of the passes.
        stages: Number of stages.
        micro_batches: Micro-batches of a weight update.
        training: Whether there is a backward pass.
    """
    if schedule == "sequential":
        for micro_batch in range(micro_batches):
            for stage, direction in _one_after_the_other(stages, training):
                yield (Work(stage=stage, direction=direction, micro_batch=micro_batch),)
        return
    for slot in range(_last_slot(schedule, stages, micro_batches, training) + 1):
        works = tuple(
            work
            for direction in _passes(training)
            for stage in range(stages)
            if (work := _work(schedule, stages, training, slot, stage, direction))
            and 0 <= work.micro_batch < micro_batches
        )
        if works:
            yield works


def slot_of(schedule: Schedule, *, stages: int, training: bool, stage: int, direction: Pass) -> int:
    """Returns the slot in which a stage does a pass of micro-batch 0."""
    if not training:
        return stage
    if schedule == "grouped":
        # Slots of even number are forward, those of odd number backward.
        return 2 * stage if direction == "forward" else 2 * (2 * (stages - 1) - stage) + 1
    return stage if direction == "forward" else 2 * stages - 1 - stage


def waiting_micro_batches(
    schedule: Schedule,
    *,
    stages: int,
    training: bool,
    maker: tuple[int, Pass],
    reader: tuple[int, Pass],
) -> int:
    """Returns how many micro-batches wait between two passes, besides the current one.

    Args:
        schedule: The order in which stages run.
        stages: Number of stages.
        training: Whether there is a backward pass.
        maker: Stage and pass that make the value.
        reader: Stage and pass that read it last, on the IPU that keeps it.
    """
    if schedule == "sequential":
        return 0
    first, last = (
        slot_of(schedule, stages=stages, training=training, stage=stage, direction=direction)
        for stage, direction in (maker, reader)
    )
    return max(0, last - first - 1) // _period(training)


def schedule_depth(schedule: Schedule, ipus: Sequence[int], *, training: bool) -> int:
    """Returns the number that must divide the micro-batches of a pipeline's run.

    Grouped: the number of scheduled passes, forward and in training also backward. Interleaved: the
    number of micro-batches that the IPUs can share so that no IPU has two passes at once, which is
    the number of rotations of the IPUs' order that do not meet. Sequential: 1.

    Args:
        schedule: Order of the stages.
        ipus: IPU of each stage.
        training: Whether backward passes are scheduled, too.
    """
    passes = [*ipus, *reversed(ipus)] if training else list(ipus)
    if schedule == "sequential":
        return 1
    if schedule == "grouped":
        return len(passes)
    return len(_rotations_apart(passes))


def _period(training: bool) -> int:
    """Returns the slots from one micro-batch to the next."""
    return 2 if training else 1


def _passes(training: bool) -> tuple[Pass, ...]:
    return ("forward", "backward") if training else ("forward",)


def _one_after_the_other(stages: int, training: bool) -> Iterator[tuple[int, Pass]]:
    for stage in range(stages):
        yield stage, "forward"
    if training:
        for stage in reversed(range(stages)):
            yield stage, "backward"


def _last_slot(schedule: Schedule, stages: int, micro_batches: int, training: bool) -> int:
    *_, (stage, direction) = _one_after_the_other(stages, training)
    first = slot_of(schedule, stages=stages, training=training, stage=stage, direction=direction)
    return first + _period(training) * (micro_batches - 1)


def _work(
    schedule: Schedule, stages: int, training: bool, slot: int, stage: int, direction: Pass
) -> Work | None:
    """Returns the pass of a stage in a slot of a pipeline that never starts or ends."""
    first = slot_of(schedule, stages=stages, training=training, stage=stage, direction=direction)
    micro_batch, offset = divmod(slot - first, _period(training))
    if offset:
        return None
    return Work(stage=stage, direction=direction, micro_batch=micro_batch)


def _rotations_apart(passes: Sequence[int]) -> list[list[int]]:
    """Returns rotations of a sequence, no two of which have the same value at the same place."""
    distinct: list[list[int]] = []
    for offset in range(len(passes)):
        rotation = [*passes[offset:], *passes[:offset]]
        if all(a != b for other in distinct for a, b in zip(rotation, other, strict=True)):
            distinct.append(rotation)
    return distinct
