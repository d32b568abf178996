"""The page of the tutorials lists them all."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "tutorials"
SHARED = {"__init__", "digits"}


def test_all_tutorials_are_listed():
    listed = re.findall(r"\./dev run -m tutorials\.(\w+)", (FOLDER / "README.md").read_text())
    scripts = {path.stem for path in FOLDER.glob("*.py")} - SHARED
    scripts |= {path.parent.name for path in FOLDER.glob("*/__main__.py")}
    assert sorted(listed) == sorted(scripts)
