"""Chains over the instances of a job: the same draws over any number, one set of files."""

import importlib.util
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ipu_tf.mcmc import job_chains

ROOT = Path(__file__).resolve().parents[2]


class SecondOfTwo:
    """A communicator at instance 1, whose peer has other values."""

    def broadcast(self, call, values, root=0):
        assert (values, root, call.name) == (b"", 0, "mcmc.sample_chain: seeds")
        return pickle.dumps("of instance 0")

    def all_gather(self, call, values):
        return [pickle.dumps([np.zeros((3, 1))]), values]


def test_a_single_process_tells_nobody():
    parts = [np.ones(2)]
    assert job_chains.is_first()
    assert job_chains.of_first(parts, "seeds") is parts
    assert job_chains.of_all(parts, 0, "draws") is parts


def test_instances_have_the_seeds_of_the_first_and_the_draws_of_all(monkeypatch):
    monkeypatch.setattr(job_chains, "communicator", SecondOfTwo)
    monkeypatch.setattr(job_chains, "is_first", lambda: False)
    assert job_chains.of_first("mine", "seeds") == "of instance 0"
    (found,) = job_chains.of_all([np.ones((3, 1))], 1, "draws")
    np.testing.assert_array_equal(found, [[0, 1]] * 3)


def sampled(count, *words):
    """How a job of four replicas over some instances ended."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "ipu_tf.poprun", f"--num-instances={count}"),
            *("--num-replicas=4", sys.executable, "-m", "tests.mcmc.job_script", *map(str, words)),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=170,
    )


def assert_equal(first, second):
    with np.load(first) as one, np.load(second) as two:
        for name in ("states", "trace"):
            np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")
class TestJobs:
    """Jobs of several processes."""

    @pytest.mark.parametrize("count", [2, 4])
    def test_draws_do_not_depend_on_the_number_of_instances(self, count, tmp_path):
        for each in (1, count):
            done = sampled(each, "none", tmp_path / f"draws{each}")
            assert done.returncode == 0, done.stderr
        for index in range(count):
            assert_equal(tmp_path / "draws1-0.npz", tmp_path / f"draws{count}-{index}.npz")

    def test_a_job_goes_on_after_an_instance_is_killed(self, tmp_path):
        chains, file = tmp_path / "chains", tmp_path / "draws"
        done = sampled(2, chains, file, 3)
        assert done.returncode == 137, done.stderr
        assert "poprun: instance 1 of 2, on " in done.stderr
        assert "was killed by signal 9 (SIGKILL)" in done.stderr
        kept = sorted(path.name for path in chains.glob("block_*"))
        assert 4 <= len(kept) < 20
        before = {name: (chains / name).read_bytes() for name in kept[:-1]}
        done = sampled(2, chains, file, 99)
        assert done.returncode == 0, done.stderr
        assert_equal(tmp_path / "draws-0.npz", tmp_path / "draws-1.npz")
        assert all((chains / name).read_bytes() == kept for name, kept in before.items())
        # Files of the whole run are those of one process, too.
        done = sampled(1, chains, tmp_path / "again", 99)
        assert done.returncode == 0, done.stderr
        assert_equal(tmp_path / "draws-0.npz", tmp_path / "again-0.npz")
