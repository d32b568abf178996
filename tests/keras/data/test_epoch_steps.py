"""The advice of errors about batches and executions that do not divide the data."""

import re
import time

import pytest

from ipu_tf.keras.data.epoch_steps import epoch_steps, largest_execution
from ipu_tf.keras.data.lengths import DataUse, check_arrays, largest_divisor


def test_the_largest_divisor_is_the_one_of_a_search():
    for number in range(1, 50):
        for limit in range(1, 60):
            found = largest_divisor(number, limit)
            assert found == max(n for n in range(1, limit + 1) if number % n == 0)


def test_advice_on_a_huge_batch_size_is_quick():
    use = DataUse(model="net", method="predict", batch_size=10**9)
    begin = time.process_time()
    with pytest.raises(ValueError, match=r"Pass batch_size=60000000\.$"):
        check_arrays({"x": 60_000_000}, use)
    assert time.process_time() - begin < 0.1


@pytest.mark.parametrize(
    ("steps", "limit", "of_update", "expected"),
    [(12, 5, 1, 4), (24, 8, 4, 8), (24, 9, 4, 8), (20, 9, 4, 4), (24, 3, 4, 0), (18, 9, 4, 0)],
)
def test_the_largest_execution_is_of_whole_updates(steps, limit, of_update, expected):
    assert largest_execution(steps, limit, of_update=of_update) == expected


@pytest.mark.parametrize(
    ("batches", "per_execution", "of_update", "advice"),
    [
        (12, 5, 1, "Compile with steps_per_execution=4, or pass another `steps_per_epoch`."),
        (12, 8, 4, "Compile with steps_per_execution=4, or pass another `steps_per_epoch`."),
        (12, 5, 6, "Compile with steps_per_execution=6, or pass another `steps_per_epoch`."),
        (
            6,
            4,
            4,
            "Executions of this model have a multiple of 4 steps: provide a multiple of 8 batches, "
            "or pass one as `steps_per_epoch`.",
        ),
    ],
)
def test_advised_executions_hold_whole_updates(batches, per_execution, of_update, advice):
    replicas = 2 if batches == 6 else 1
    use = DataUse(model="net", method="fit", steps_per_execution=per_execution, replicas=replicas)
    with pytest.raises(ValueError, match=f"{re.escape(advice)}$"):
        epoch_steps(batches * replicas, use, restarts=False, of_update=of_update)
