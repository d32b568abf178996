"""The plugin that counts the CPU seconds of tests."""

import json
import pathlib

import pytest

from tests.cpu_budget import BUDGETS, demotions, room_of

pytest_plugins = ["pytester"]

TESTS = """
    import time
    import pytest

    def work(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    def test_short():
        pass

    @pytest.mark.parametrize("seconds", [0.2, 0.01])
    def test_long(seconds):
        work(seconds)

    @pytest.mark.slow
    def test_slow():
        work(0.1)

    @pytest.fixture
    def prepared():
        work(0.15)

    def test_after_preparation(prepared):
        pass
"""


@pytest.fixture
def run(pytester):
    """Runs tests of which one takes longer than the limit."""
    pytester.makefile(".json", budgets='{".": 0.3}')
    pytester.makeini("[pytest]\ncpu_limit = 0.05\ncpu_budgets = budgets.json\nmarkers = slow")
    pytester.makepyfile(TESTS)
    return lambda *options: pytester.runpytest("-p", "tests.cpu_budget", *options)


def test_a_fast_test_over_the_limit_fails(run):
    result = run()
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.re_match_lines(
        [
            r".*test_long",
            r"This test took 0\.\d CPU seconds; fast tests take at most 0\.05\.",
        ]
    )
    result.stdout.no_fnmatch_line("*slowest tests*")


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
@pytest.mark.slow
def test_the_summary_lists_the_slowest_tests_and_the_total(run, workers):
    result = run("--slowest", "2", "-m", "not slow", *workers)
    result.stdout.re_match_lines(
        [
            r".*2 slowest tests, in CPU seconds",
            r" +0\.\d+ .*::test_long",
            r" +0\.\d+ .*::test_after_preparation",
            r" +0\.\d+ all tests; the fast ones may take 0\.3",
            r"=+ CPU seconds of each room, of its budget =+",
            r"Other processes on these cores add 10 to 40 %\.",
            r" +0\.\d+ of 0\.3 \.",
            r" +demote 0\.\d+ .*::test_long\[0\.2\], which \[0\.01\] covers",
            r"The fast tests take more than their budget\.",
        ],
        consecutive=True,
    )


def test_all_tests_have_no_budget(run):
    result = run("--slowest", "1")
    result.stdout.no_fnmatch_line("*more than their budget*")


def test_the_dearest_cells_are_demoted_until_the_room_is_in_its_budget():
    cells = {"a[1]": 2.0, "a[2]": 5.0, "a[3]": 1.0, "b[1]": 3.0, "b[2]": 3.5, "c": 9.0}
    cells |= {"d[1]": 0.03, "d[2]": 0.02}
    assert list(demotions(cells, 0)) == []
    assert list(demotions(cells, 4.5)) == [("a[2]", "a[3]")]
    assert list(demotions(cells, 6)) == [("a[2]", "a[3]"), ("b[2]", "b[1]")]
    assert [name for name, _ in demotions(cells, 100)] == ["a[2]", "b[2]", "a[1]"]


def test_a_room_is_a_folder_of_tests():
    assert room_of("tests/keras/steps/test_a.py::test[a/b]") == "tests/keras"
    assert room_of("tests/test_a.py::test") == "tests"
    assert room_of("test_a.py::test") == "."


def test_every_room_has_a_budget():
    root = pathlib.Path(__file__).parent.parent
    found = {room_of(str(path.relative_to(root))) for path in root.glob("tests/**/test_*.py")}
    assert set(json.loads(BUDGETS.read_text())) == found
