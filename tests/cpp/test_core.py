"""The C++ tests of ops/core, under address and undefined-behaviour sanitizers."""

import subprocess

import pytest

from tests.cpp import run


@pytest.mark.slow
def test_core_under_sanitizers():
    result = subprocess.run([str(run.build())], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 of" in result.stdout


@pytest.mark.slow
def test_names_that_no_test_has_are_an_error():
    result = subprocess.run(
        [str(run.build()), "NoSuchTest"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "no test has one of these names" in result.stdout
