"""The tutorial of several processes trains the same weights over any number of them."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest


def printed(count):
    command = ["--num-replicas=2", sys.executable, "-m", "tutorials.popdist", "--epochs", "4"]
    done = subprocess.run(
        [sys.executable, "-m", "ipu_tf.poprun", f"--num-instances={count}", *command],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")
def test_two_instances_train_the_weights_of_one():
    (alone, weights), (together, weights_together) = printed(1), printed(2)
    assert alone.startswith("1 x 2 replicas: accuracy ")
    assert together == alone.replace("1 x 2", "2 x 1")
    assert weights == weights_together
    assert float(re.search(r"([\d.]+)%", alone)[1]) > 80
