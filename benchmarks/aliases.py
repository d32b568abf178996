"""`python -m benchmarks aliases`: what the vendor's module names cost at the start of a process.

Each measurement runs in a separate process, and the sides take turns. A median of ten should be at
most 50 ms for the imports of a script, and at most 5 ms for a Python that imports neither.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.summary import OtherLoad, facts, significant, spread
from ipu_tf.compat import environment

_MODULES = (
    "import time; begin, cpu = time.perf_counter(), time.process_time(); {code}; "
    "print(time.perf_counter() - begin, time.process_time() - cpu)"
)
_IMPORTS = "import tensorflow, ipu_tf"
_SIDES = {
    "imports": {
        "without": _MODULES.format(code=_IMPORTS),
        "with": _MODULES.format(code=f"import ipu_tf.compat; ipu_tf.compat.install(); {_IMPORTS}"),
    },
    "start": {
        name: "import site; " + _MODULES.format(code=f"site.addsitedir({{{name!r}}})")
        for name in ("without", "with")
    },
}
WANTED_MILLISECONDS = {"imports": 50.0, "start": 5.0}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures both in turns; an extra round, not counted, warms the disk."""
    load = OtherLoad()
    with tempfile.TemporaryDirectory() as folder:
        results = {name: measure(name, options.rounds, Path(folder)) for name in _SIDES}
    return {
        "benchmark": "aliases",
        "facts": facts() | {"other_cores": load.cores()},
        "results": results,
    }


def measure(name: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Returns the milliseconds of both sides, and what the names add.

    Args:
        name: "imports", or "start" for a Python that imports neither.
        rounds: Turns of each side.
        folder: An empty folder.
    """
    folders = {side: folder / f"{name}-{side}" for side in ("without", "with")}
    for each in folders.values():
        each.mkdir()
    environment.write_to(folders["with"])
    milliseconds: dict[str, list[float]] = {side: [] for side in folders}
    cpu: dict[str, list[float]] = {side: [] for side in folders}
    for turn in range(rounds + 1):
        for side in folders if turn % 2 else [*folders][::-1]:
            code = _SIDES[name][side].replace(f"{{{side!r}}}", repr(str(folders[side])))
            seconds, cpu_seconds = _seconds(code, folder, isolated=name == "start")
            if turn:
                milliseconds[side].append(1000 * seconds)
                cpu[side].append(1000 * cpu_seconds)
    medians = {side: spread(values)["median"] for side, values in milliseconds.items()}
    overhead = medians["with"] - medians["without"]
    return {
        "milliseconds": {side: spread(values) for side, values in milliseconds.items()},
        "cpu_milliseconds": {side: spread(values) for side, values in cpu.items()},
        "added_milliseconds": significant(overhead),
        "wanted_at_most_milliseconds": WANTED_MILLISECONDS[name],
        "within_bounds": overhead <= WANTED_MILLISECONDS[name],
    }


def _seconds(code: str, folder: Path, *, isolated: bool) -> tuple[float, float]:
    """Returns the seconds that a process prints: of the clock, and of its processor.

    Bytecode is kept in a folder, as where the package is installed.
    """
    words = [sys.executable, *(["-S"] if isolated else []), "-c", code]
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.run(
        words,
        env={
            **os.environ,
            "PYTHONPATH": paths,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, cpu_seconds = map(float, process.stdout.split())
    return seconds, cpu_seconds
