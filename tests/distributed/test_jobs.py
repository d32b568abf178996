"""Jobs of several instances: one set of replicas, whose numbers do not depend on the processes."""

import functools
import re

import pytest

from tests.processes.mpi import run_instances

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.slow


@functools.cache
def run(case, count=2, replicas=4):
    ipus = 2 if "stages" in case else 1
    return run_instances(count, "tests.distributed.worker", case, replicas=replicas, ipus=ipus)


def result(case, count, replicas=4):
    ended = run(case, count, replicas)
    assert ended.status == 0, ended.text
    (found,) = re.findall("RESULT (.*)", ended.text)
    return found


def test_values_of_the_host():
    assert result("host", 2)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    "case",
    [
        *("collectives", "steps", "loop", "jitted_loop", "stages", "session"),
        *("fit", "fit_accumulating", "fit_in_groups", "fit_in_stages"),
    ],
)
def test_replicas_give_the_same_bits_over_any_number_of_processes(case, count):
    if case == "fit_in_groups" and count == 4:
        pytest.skip("Groups lie within an instance.")
    assert result(case, count) == result(case, 1)


def test_logs_are_those_of_all_instances():
    found = re.findall(r"LOSS of \d (.*)", run("fit").text)
    assert len(found) == 2
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            "unequal",
            "the shards of the data differ in length: instance 0 has 3 steps an epoch, instance 1 "
            "has 4. Cut them",
        ),
        ("own_train_step", "Here it has to: the model has 4 replicas"),
        ("outside_of_fit", "updates the weights by the gradients of one replica, and 2 instances"),
        ("sharded_state", "not over those of 2. Set it to False"),
        ("groups", "replica_group_size` to a divisor or a multiple of 3, or start another"),
        ("other_device", "The device of instance 0 runs 1 replicas of the model, but poprun gave"),
        ("stops_early", "instance 1 has ended, and calls it no more"),
        (
            "another_program",
            "Instances 0 and 1 run different programs: instance 0 calls",
        ),
        ("another_model", "(add) 'gradients of sequential' of float32 [2, 1], [1] in program"),
        ("another_order", "are at different collectives: instance 0 calls all-reduce (add) 'one'"),
    ],
)
def test_what_would_not_train_together_is_refused(case, told):
    ended = run(case, replicas=6 if case == "groups" else 4)
    assert ended.status != 0
    assert told in " ".join(ended.text.split()), ended.text
