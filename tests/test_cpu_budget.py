"""The plugin that counts the CPU seconds of tests."""

import pytest

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

    def test_long():
        work(0.2)

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
    pytester.makeini("[pytest]\ncpu_limit = 0.05\ncpu_budget = 0.3\nmarkers = slow")
    pytester.makepyfile(TESTS)
    return lambda *options: pytester.runpytest("-p", "tests.cpu_budget", *options)


def test_a_fast_test_over_the_limit_fails(run):
    result = run()
    result.assert_outcomes(passed=3, failed=1)
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
            r"The fast tests take more than their budget\.",
        ],
        consecutive=True,
    )


def test_all_tests_have_no_budget(run):
    result = run("--slowest", "1")
    result.stdout.no_fnmatch_line("*more than their budget*")
