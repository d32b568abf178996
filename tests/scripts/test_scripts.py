"""Scripts written as the vendor's guides write them run as they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def run(script, *words):
    """Runs a script with generated data in a process of its own; returns what it prints."""
    command = [sys.executable, "-m", "ipu_tf", "run", "--offline", str(FOLDER / script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_cifar10_network_learns():
    printed = run("cifar10.py", "--epochs", "3", "--samples", "6400")
    accuracy = float(re.search(r"^accuracy (.*)$", printed, re.MULTILINE)[1])
    assert accuracy > 0.2
