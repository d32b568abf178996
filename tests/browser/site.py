"""The documents as a site, and the pictures of it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.browser import chromium

ROOT = Path(__file__).resolve().parents[2]

PICTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "site-start": ("index.html", {"height": 1400}),
    "site-search": ("docs/keras.html", {"query": "gradient accumulation"}),
    "site-machine": ("docs/machines.html", {"theme": "dark"}),
}
"""The pictures of the site: their page, and options of the page and of the task."""


def missing() -> str:
    """Returns which package the site lacks, and the way to get it; "" if all are there."""
    for module in ("material", "mkdocstrings"):
        if importlib.util.find_spec(module) is None:
            return f"the Python package {module} is not there: pip install '.[docs]'"
    return ""


def build(folder: Path) -> Path:
    """Builds the site in a folder, and returns the folder.

    Raises:
        RuntimeError: A link is broken, or the navigation lacks a page.
    """
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    result = subprocess.run(
        [*command, "--config-file", str(ROOT / "docs" / "mkdocs.yml"), "--site-dir", str(folder)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(f"the site was not built:\n{result.stdout}{result.stderr}")
    return folder


def use(task: str, site: Path, page: str, **options: Any) -> dict[str, Any]:
    """Returns what a task of site.mjs found in a page; requests may stay in the site alone."""
    within = site.as_uri() + "/"
    return chromium.run(task, within + page, ready=False, within=within, **options)


def write_pictures(site: Path, folder: Path) -> None:
    """Writes the pictures of a site that was built.

    Raises:
        RuntimeError: A page has faults.
    """
    for name, (page, options) in PICTURES.items():
        file = str(folder / f"{name}.png")
        options = {"width": 1280, "height": 900, "file": file} | options
        answer = use("picture", site, page, **options)
        if answer["faults"]:
            raise RuntimeError("\n".join(answer["faults"]))
