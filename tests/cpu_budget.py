"""A pytest plugin that keeps fast tests fast. It counts CPU seconds, whatever else runs.

A fast test whose call takes too many CPU seconds fails. The summary lists the slowest tests, the
seconds of each room (a folder of tests) next to its budget, and the cells it would demote.

Other processes on the same cores make CPU seconds grow, by 10 to 40 %: compare the rooms with each
other then, and not with their budgets.
"""

import collections
import json
import os
import pathlib
import time

import pytest

LIMIT = 12.0
"""CPU seconds of one fast test. The slowest takes 3 to 4 on a core of its own, and twice as many if
the other threads of the core are busy."""

BUDGETS = pathlib.Path(__file__).with_name("cpu_budgets.json")
"""The CPU seconds of the fast tests of each room. Two cores run all in half of the sum."""

WORTH_IT = 0.05
"""CPU seconds of the cheapest cell that is worth demoting."""

_START = pytest.StashKey[float]()


def pytest_addoption(parser):
    parser.addoption(
        "--slowest", type=int, default=0, metavar="N", help="list the N tests with most CPU time"
    )
    parser.addini("cpu_limit", "CPU seconds that a fast test may take", default=str(LIMIT))
    parser.addini("cpu_budgets", "file of the CPU seconds of each room", default=str(BUDGETS))


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


def room_of(nodeid):
    """Returns the folder of tests that a test is in: `tests/keras` of all below it."""
    folders = pathlib.PurePosixPath(nodeid.partition("::")[0]).parent.parts
    return "/".join(folders[:2]) or "."


def demotions(cells, excess):
    """Yields the dearest cells that a cheaper cell of the same test covers, until `excess` is gone.

    Args:
        cells: The CPU seconds of each test, by its id.
        excess: The CPU seconds that are too many.

    Yields:
        The id of a cell, and the id of the cheapest cell of its test, which stays.
    """
    cheapest = {}
    for name in sorted(cells, key=cells.get, reverse=True):
        cheapest[name.partition("[")[0]] = name
    for name in sorted(cells, key=cells.get, reverse=True):
        kept = cheapest[name.partition("[")[0]]
        if excess <= 0 or cells[name] < WORTH_IT:
            return
        if kept != name:
            excess -= cells[name]
            yield name, kept


def pytest_terminal_summary(terminalreporter, config):
    """Lists the tests with most CPU time, and compares the rooms with their budgets."""
    count = config.getoption("--slowest")
    if not count:
        return
    tests, calls = _seconds(terminalreporter)
    terminalreporter.section(f"{count} slowest tests, in CPU seconds")
    for name, taken in tests.most_common(count):
        terminalreporter.write_line(f"{taken:7.2f} {name}")
    budgets = json.loads(pathlib.Path(config.getini("cpu_budgets")).read_text())
    total, budget = tests.total(), sum(budgets.values())
    terminalreporter.write_line(f"{total:7.2f} all tests; the fast ones may take {budget:g}")
    if config.getoption("-m") == "not slow":
        _write_rooms(terminalreporter, tests, calls, budgets)
    if total > budget and config.getoption("-m") == "not slow":
        terminalreporter.write_line(
            "The fast tests take more than their budget. Make the slowest smaller, or mark `slow` "
            "what a faster test covers as well.",
            red=True,
        )


def _seconds(terminalreporter):
    """Returns the CPU seconds of each test, and those of its call alone."""
    tests, calls = collections.Counter(), collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "cpu_seconds"):
                tests[report.nodeid] += report.cpu_seconds
                if report.when == "call":
                    calls[report.nodeid] += report.cpu_seconds
    return tests, calls


def _write_rooms(terminalreporter, tests, calls, budgets):
    """Writes the seconds of each room, and under those beyond their budget what to demote."""
    rooms = collections.Counter()
    for name, taken in tests.items():
        rooms[room_of(name)] += taken
    terminalreporter.section("CPU seconds of each room, of its budget")
    terminalreporter.write_line("Other processes on these cores add 10 to 40 %.")
    for room, taken in rooms.most_common():
        budget = budgets.get(room, 0)
        terminalreporter.write_line(f"{taken:7.2f} of {budget:3g} {room}", red=taken > budget)
        # A fixture's seconds move to the next test that uses it: they are not saved.
        cells = {name: calls[name] for name in calls if room_of(name) == room}
        for name, kept in demotions(cells, taken - budget):
            terminalreporter.write_line(
                f"{'':8}demote {cells[name]:.2f} {name}, which {kept[kept.find('[') :]} covers"
            )
