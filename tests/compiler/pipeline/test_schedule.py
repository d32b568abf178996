"""Schedules against brute force: every pass once, in order, one at a time on an IPU."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.pipeline.schedule import Work, schedule_depth, slots, waiting_micro_batches

SCHEDULES = ("grouped", "interleaved", "sequential")
sizes = st.tuples(st.sampled_from(SCHEDULES), st.integers(1, 6), st.integers(1, 9), st.booleans())


def times(schedule, stages, micro_batches, training):
    """The slot of every work."""
    played = slots(schedule, stages=stages, micro_batches=micro_batches, training=training)
    return {work: number for number, slot in enumerate(played) for work in slot}


@given(sizes)
def test_every_pass_runs_once_after_what_it_needs(size):
    schedule, stages, micro_batches, training = size
    found = times(*size)
    passes = ("forward", "backward") if training else ("forward",)
    assert set(found) == {
        Work(stage=stage, direction=direction, micro_batch=micro_batch)
        for stage in range(stages)
        for direction in passes
        for micro_batch in range(micro_batches)
    }
    for micro_batch in range(micro_batches):
        chain = [(stage, "forward") for stage in range(stages)]
        chain += [(stage, "backward") for stage in reversed(range(stages)) if training]
        order = [
            found[Work(stage=stage, direction=direction, micro_batch=micro_batch)]
            for stage, direction in chain
        ]
        assert all(before < after for before, after in itertools.pairwise(order))
    played = slots(schedule, stages=stages, micro_batches=micro_batches, training=training)
    for slot in played:
        assert len({work.stage for work in slot}) == len(slot)


@pytest.mark.parametrize(
    ("schedule", "count"),
    [("grouped", 2 * (5 + 3)), ("interleaved", 2 * (5 + 3)), ("sequential", 40)],
)
def test_number_of_slots(schedule, count):
    assert len(list(slots(schedule, stages=4, micro_batches=5))) == count


def in_store(schedule, stages, training, made, read):
    """Micro-batches whose value is there when it is read, counted slot by slot."""
    found = times(schedule, stages, 40, training)
    most = 0
    for micro_batch in range(40):
        now = found[Work(stage=read[0], direction=read[1], micro_batch=micro_batch)]
        there = [
            other
            for other in range(micro_batch, 40)
            if found[Work(stage=made[0], direction=made[1], micro_batch=other)] < now
        ]
        most = max(most, len(there))
    return most - 1


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("training", [True, False])
def test_what_waits_is_what_a_count_finds(schedule, training):
    stages = 4
    directions = ("forward", "backward") if training else ("forward",)
    ends = list(itertools.product(range(stages), directions))
    for made, read in itertools.product(ends, ends):
        start = times(schedule, stages, 1, training)
        first = start[Work(stage=made[0], direction=made[1], micro_batch=0)]
        last = start[Work(stage=read[0], direction=read[1], micro_batch=0)]
        if first >= last:
            continue
        waiting = waiting_micro_batches(
            schedule, stages=stages, training=training, maker=made, reader=read
        )
        assert waiting == in_store(schedule, stages, training, made, read), (made, read)


@pytest.mark.parametrize(("schedule", "factor"), [("grouped", 2), ("interleaved", 1)])
def test_a_stage_keeps_as_many_micro_batches_as_its_distance_from_the_end(schedule, factor):
    depths = [
        waiting_micro_batches(
            schedule, stages=4, training=True, maker=(stage, "forward"), reader=(stage, "backward")
        )
        for stage in range(4)
    ]
    assert depths == [factor * (3 - stage) for stage in range(4)]


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_the_depth_of_a_pipeline(stages):
    ipus = range(stages)
    assert schedule_depth("grouped", ipus, training=True) == 2 * stages
    assert schedule_depth("grouped", ipus, training=False) == stages
    assert schedule_depth("interleaved", ipus, training=True) == stages
    assert schedule_depth("interleaved", ipus, training=False) == stages
    assert schedule_depth("sequential", ipus, training=True) == 1


def test_stages_that_share_an_ipu_leave_less_room_between_micro_batches():
    assert schedule_depth("interleaved", [0, 1, 0, 1], training=False) == 2
    assert schedule_depth("interleaved", [0, 0, 1, 1], training=False) == 2
    assert schedule_depth("interleaved", [0, 1, 0], training=False) == 1
    assert schedule_depth("grouped", [0, 1, 0], training=False) == 3
