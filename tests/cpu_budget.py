"""A pytest plugin that keeps fast tests fast. It counts CPU seconds, whatever else runs.

A fast test whose call takes too many CPU seconds fails. The summary lists the slowest tests and the
total of all.
"""

import collections
import os
import time

import pytest

LIMIT = 12.0
"""CPU seconds of one fast test. The slowest takes 3 to 4 on a core of its own, and twice as many if
the other threads of the core are busy."""

BUDGET = 360.0
"""CPU seconds of all fast tests. Two cores run them in 180 s, and start and collect in 15 s."""

_START = pytest.StashKey[float]()


def pytest_addoption(parser):
    parser.addoption(
        "--slowest", type=int, default=0, metavar="N", help="list the N tests with most CPU time"
    )
    parser.addini("cpu_limit", "CPU seconds that a fast test may take", default=str(LIMIT))
    parser.addini("cpu_budget", "CPU seconds that all tests may take", default=str(BUDGET))


def cpu_seconds():
    """Returns the CPU seconds that this process and its ended children took so far."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item):
    start = cpu_seconds()
    result = yield
    seconds, limit = cpu_seconds() - start, float(item.config.getini("cpu_limit"))
    if seconds > limit and item.get_closest_marker("slow") is None:
        pytest.fail(
            f"This test took {seconds:.1f} CPU seconds; fast tests take at most {limit:g}. Make it "
            "smaller (a smaller model, fewer steps, a shared fixture), or mark it `slow`.",
            pytrace=False,
        )
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    item.stash[_START] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Adds the CPU seconds since the last report of the test; reports of workers keep them."""
    report = yield
    now = cpu_seconds()
    report.cpu_seconds, item.stash[_START] = now - item.stash[_START], now
    return report


def pytest_terminal_summary(terminalreporter, config):
    """Lists the tests with most CPU time, and compares the total with the budget."""
    count = config.getoption("--slowest")
    if not count:
        return
    seconds = collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "cpu_seconds"):
                seconds[report.nodeid] += report.cpu_seconds
    total, budget = seconds.total(), float(config.getini("cpu_budget"))
    terminalreporter.section(f"{count} slowest tests, in CPU seconds")
    for name, taken in seconds.most_common(count):
        terminalreporter.write_line(f"{taken:7.2f} {name}")
    terminalreporter.write_line(f"{total:7.2f} all tests; the fast ones may take {budget:g}")
    if total > budget and config.getoption("-m") == "not slow":
        terminalreporter.write_line(
            "The fast tests take more than their budget. Make the slowest smaller, or mark `slow` "
            "what a faster test covers as well.",
            red=True,
        )
