"""Without Chromium or Node.js the browser tests skip, or fail where they are required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import chromium

ROOT = Path(__file__).resolve().parents[2]


def outcome(path, **variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", ""]
    test = "tests/browser/test_report_pages.py::TestBadInput::test_no_program"
    own = ("CHROMIUM", "IPU_TF_BROWSER_TESTS")
    environment = {name: text for name, text in os.environ.items() if name not in own}
    return subprocess.run(
        [*command, test],
        cwd=ROOT,
        env=environment | {"PATH": str(path)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def tool(folder, name):
    (folder / name).write_text("#!/bin/sh\nexit 9\n")
    (folder / name).chmod(0o755)


@pytest.mark.slow
def test_what_is_missing_is_named(tmp_path):
    wanted = "Chromium is not on PATH: apt-get install chromium, or set CHROMIUM to its path"
    skipped = outcome(tmp_path)
    assert (skipped.returncode, wanted in skipped.stdout) == (0, True), skipped.stdout
    assert "1 skipped" in skipped.stdout
    failed = outcome(tmp_path, IPU_TF_BROWSER_TESTS="required")
    assert (failed.returncode, wanted in failed.stdout) == (1, True), failed.stdout


def test_each_part_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(chromium, "HERE", tmp_path)
    tool(tmp_path, "chromium")
    assert chromium.missing() == "Node.js is not on PATH: apt-get install nodejs npm"
    tool(tmp_path, "node")
    assert chromium.missing() == (
        "the package playwright-core is not there: run `npm ci` in tests/browser"
    )
    for name in ("playwright-core", "axe-core"):
        (tmp_path / "node_modules" / name).mkdir(parents=True)
    assert chromium.missing() == ""
    with pytest.raises(RuntimeError, match="^text of http://localhost/ failed:"):
        chromium.run("text", "http://localhost/")
