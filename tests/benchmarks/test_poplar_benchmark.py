"""The benchmark of Poplar programs: its program runs and prints its figures."""

import pytest

from benchmarks import poplar
from tests.poplar.conftest import programs  # noqa: F401


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["contiguous", "scattered"])
def test_the_program_prints_its_figures(programs, kind):  # noqa: F811
    folder = poplar._PROGRAMS
    program = programs.program(folder / "calls.cpp")
    found = poplar.figures(program, (kind, "2000", "3", "profile"))
    rates = {"calls_per_s", "calls_per_cpu_s"}
    assert set(found) == {"graph_s", "engine_s", "engine_and_profile_s"} | rates
    assert found["engine_and_profile_s"] > found["engine_s"]
    assert min(found.values()) > 0
