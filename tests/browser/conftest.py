"""Reports of whole networks as pages, and Chromium to use them with."""

from __future__ import annotations

import os

import pytest

from tests.browser import chromium


@pytest.fixture(scope="session")
def browser():
    """Runs a task of drive.mjs, and returns what it found; every fault of the page fails."""
    if problem := chromium.missing():
        if os.environ.get("IPU_TF_BROWSER_TESTS") == "required":
            pytest.fail(problem)
        pytest.skip(problem)

    def run(task, page, *, faults=False, **options):
        answer = chromium.run(task, page, **options)
        assert faults or answer["faults"] == []
        return answer if faults else answer["found"]

    return run


@pytest.fixture(scope="session")
def reports(tmp_path_factory, browser):
    """The reports of three networks and of a host timeline, each with the path of its page."""
    from tests.browser import networks

    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, make in networks.REPORTS.items():
        report = make()
        report.to_html(folder / f"{name}.html")
        found[name] = (report, folder / f"{name}.html")
    return found
