"""`python -m benchmarks poplar`: how fast C++ programs for Poplar run on the simulated machine.

On two cores, 20 million vertices a second with ten floats in a row in and out are wanted, and two
million with four scattered ones; and an Engine of a million edges in ten seconds, with the first
summary of its cycles and memory, for which the helper process starts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.summary import OtherLoad, facts, spread
from ipu_tf.poplar import installation
from ipu_tf.poplar.toolchain import PROGRAM_FLAGS, find_compiler

_PROGRAMS = Path(__file__).resolve().parent / "poplar_programs"
_CASES = {
    "contiguous": ("contiguous", "20000", "500"),
    "scattered": ("scattered", "20000", "100"),
    "million_edges": ("contiguous", "500000", "2", "profile"),
}
"""Kind of edges, vertices, runs of their compute set; whether the summary is asked for."""
WANTED_CALLS_PER_S = {"contiguous": 20e6, "scattered": 2e6}
WANTED_SECONDS = 10.0


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures the cases in turns."""
    load = OtherLoad()
    rounds_of_cases: dict[str, list[dict[str, float]]] = {name: [] for name in _CASES}
    with tempfile.TemporaryDirectory() as folder:
        program = build_program(Path(folder))
        for _ in range(options.rounds):
            for name, arguments in _CASES.items():
                rounds_of_cases[name].append(figures(program, arguments))
    return {
        "benchmark": "poplar",
        "facts": facts() | {"other_cores": load.cores()},
        "wanted_calls_per_s": WANTED_CALLS_PER_S,
        "wanted_seconds_of_a_million_edges": WANTED_SECONDS,
        "results": {
            name: {key: spread([one[key] for one in rounds]) for key in rounds[0]}
            for name, rounds in rounds_of_cases.items()
        },
    }


def build_program(folder: Path) -> Path:
    """Returns the program of the benchmark, compiled into `folder`."""
    place = installation()
    program = folder / "calls"
    words = [*PROGRAM_FLAGS, *place.compile_flags, str(_PROGRAMS / "calls.cpp")]
    find_compiler().run([*words, "-o", str(program), *place.link_flags], "the benchmark")
    return program


def figures(program: Path, arguments: tuple[str, ...]) -> dict[str, float]:
    """Returns what one process of the program prints: seconds, and calls a second."""
    process = subprocess.run(
        [program, *arguments], cwd=_PROGRAMS, capture_output=True, text=True, check=True
    )
    figures_of_run: dict[str, float] = json.loads(process.stdout)
    return figures_of_run
