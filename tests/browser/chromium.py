"""Runs tasks of drive.mjs in Chromium."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def missing() -> str:
    """Returns what this machine lacks, and the way to get it; "" if it has everything."""
    if not executable():
        return "Chromium is not on PATH: apt-get install chromium, or set CHROMIUM to its path"
    if shutil.which("node") is None:
        return "Node.js is not on PATH: apt-get install nodejs npm"
    for name in ("playwright-core", "axe-core"):
        if not (HERE / "node_modules" / name).is_dir():
            return f"the package {name} is not there: run `npm ci` in tests/browser"
    return ""


def executable() -> str | None:
    """Returns the path of Chromium, None if there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def run(task: str, page: Path | str, **options: Any) -> dict[str, Any]:
    """Returns what a task found in a page, the faults of the page, and how long it took to open.

    Args:
        task: A task of drive.mjs.
        page: A file, or an address.
        options: Options of the page and the task.
    """
    address = page if isinstance(page, str) else page.as_uri()
    result = subprocess.run(
        ["node", str(HERE / "drive.mjs"), task, address, json.dumps(options)],
        env=os.environ | {"CHROMIUM": executable() or ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    if result.returncode:
        raise RuntimeError(f"{task} of {address} failed:\n{result.stderr}")
    found: dict[str, Any] = json.loads(result.stdout)
    return found
