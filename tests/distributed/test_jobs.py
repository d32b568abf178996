"""Jobs of several instances: one set of replicas, whose numbers do not depend on the processes."""

import functools
import re

import pytest

from tests.processes.mpi import run_instances

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.slow

WORKER = "tests.distributed.worker"


@functools.cache
def run(case, count=2, replicas=4):
    ipus = 2 if "stages" in case else 1
    return run_instances(count, WORKER, case, replicas=replicas, ipus=ipus)


def result(case, count, replicas=4):
    ended = run(case, count, replicas)
    assert ended.status == 0, ended.text
    # Other instances may write on the same line.
    (found,) = re.findall(r"RESULT (\w+ \[[^]]*\])", ended.text)
    return found


def test_values_of_the_host():
    assert result("host", 2)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    "case",
    [
        *("collectives", "steps", "loop", "jitted_loop", "stages", "session"),
        *("fit", "fit_accumulating", "fit_in_groups", "fit_as_a_group", "fit_in_stages"),
        "fit_by_own_step",
    ],
)
def test_replicas_give_the_same_bits_over_any_number_of_processes(case, count):
    assert result(case, count) == result(case, 1)


def test_equal_programs_are_compiled_once_a_host(tmp_path):
    compiled, reported = {}, set()
    for instances in (1, 2):
        folder = tmp_path / str(instances)
        folder.mkdir(mode=0o700)
        ended = run_instances(
            instances, WORKER, "compiled_once", replicas=4, IPU_TF_JOB_FOLDER=str(folder)
        )
        assert ended.status == 0, ended.text
        found = re.findall(r"COMPILED (\d+) of (\w+)", ended.text)
        compiled[instances] = sum(int(count) for count, _ in found)
        reported |= {digest for _, digest in found}
    assert compiled[2] == compiled[1] > 0
    assert len(reported) == 1


def test_what_does_not_depend_on_a_collective_goes_on_while_it_waits():
    ended = run_instances(2, WORKER, "in_the_background")
    assert ended.status == 0, ended.text
    (told,) = re.findall(r"SECONDS of 0 (\S+) (\S+) (\S+)", ended.text)
    alone, together, late = map(float, told)
    # One after the other they would take the sum.
    assert together < alone + late - 0.5 * min(alone, late), told


def test_logs_are_those_of_all_instances():
    found = re.findall(r"LOGS of \d (.*)", run("fit").text)
    assert len(found) == 2
    assert found[0] == found[1]


def test_a_killed_job_resumes_to_the_same_bits(tmp_path):
    folders = [tmp_path / "whole", tmp_path / "killed"]
    for folder in folders:
        folder.mkdir()
    whole = run_instances(2, WORKER, "resumed", str(folders[0]), replicas=2)
    killed = run_instances(2, WORKER, "resumed", str(folders[1]), replicas=2, KILLED="1")
    resumed = run_instances(2, WORKER, "resumed", str(folders[1]), replicas=2)
    assert (whole.status, resumed.status) == (0, 0), resumed.text
    assert killed.status
    assert whole.text.count("Epoch 1/4") == 1  # Instance 0 alone shows the progress.
    assert "Epoch 2/4" not in resumed.text
    assert re.findall("RESULT (.*)", resumed.text) == re.findall("RESULT (.*)", whole.text)
    for folder in folders:
        assert sorted(path.name for path in folder.iterdir()) == ["0.csv", "0.keras", "backup"]
    assert (folders[0] / "0.csv").read_text() == (folders[1] / "0.csv").read_text()


def test_a_full_disk_at_instance_0_ends_all(tmp_path):
    ended = run_instances(2, WORKER, "full_disk", str(tmp_path))
    assert ended.status
    told = " ".join(ended.text.split())
    assert "OSError: [Errno 27] File too large" in told
    assert re.search("instance 0 failed: .*File too large", told), ended.text


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            "unequal",
            "the shards of the data differ in length: instance 0 has 3 steps an epoch, instance 1 "
            "has 4. Cut them",
        ),
        ("unequal_evaluation", "`evaluate` of model 'sequential': the shards of the data differ"),
        ("unequal_validation", "`fit` of model 'sequential', validation data: the shards of the"),
        (
            "resumes_alone",
            "begins after 5 weight updates in instance 0, and after 0 in instance 1",
        ),
        ("own_train_step", "weights of the model once, by `apply_gradients`"),
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
