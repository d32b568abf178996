"""Which update, micro-batch and replica a run of a program is of."""

import pytest

from ipu_tf.programs.update_runs import Moment, UpdateRuns

IN_LOOP = {"is_in_loop": True}


@pytest.mark.parametrize(
    ("runs", "given", "expected"),
    [
        ({}, (3,), (3, None, None)),
        ({"micro_batches": 4}, (1,), (1, 0, None)),
        ({"micro_batches": 4}, (7,), (2, 2, None)),
        ({"replicas": 2}, (4,), (2, None, 1)),
        ({"micro_batches": 3, "replicas": 2}, (8,), (2, 0, 1)),
        ({"micro_batches": 3, "replicas": 2, "group": 2}, (8,), (2, 0, None)),
        (IN_LOOP, (1, [2], 5), (3, None, None)),
        (IN_LOOP, (3, [2, 9], 5), (13, None, None)),
        (IN_LOOP | {"micro_batches": 2}, (2, [1], 4), (3, 1, None)),
        (IN_LOOP, (2, [], 5), (6, None, None)),
        ({"pipeline_updates": 2}, (3, [1, 2]), (6, 2, None)),
        ({"pipeline_updates": 2}, (3, [1]), (6, None, None)),
        ({"pipeline_updates": 1}, (3, [2]), (3, 2, None)),
        ({"pipeline_updates": 1}, (3, []), (3, None, None)),
    ],
)
def test_the_moment_of_a_run(runs, given, expected):
    update, micro_batch, replica = expected
    assert UpdateRuns(**runs).moment(*given) == Moment(
        update=update, micro_batch=micro_batch, replica=replica
    )
