"""`python -m benchmarks compile`: device programs against XLA:CPU, and plans against SCALE-Sim.

Every measurement runs in a separate process, so no cache is warm, and the sides take turns. Our
side is the time to plan, extract and compile a Keras train step for the simulated IPU; XLA's side
is the time to compile the same step for the processor. A ratio above 1 means that `ipu_tf` is
faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.errors import WorkerError
from benchmarks.summary import OtherLoad, facts, significant, spread

NETWORKS = ("resnet50", "cifar10")
SCALESIM_WORKER = Path(__file__).with_name("scalesim_worker.py")

Measurement = dict[str, Any]


def measure(task: str) -> Measurement:
    """One measurement in a fresh process; see `benchmarks.compile_worker` for the tasks."""
    return json_of([sys.executable, "-m", "benchmarks.compile_worker", task])


def against_xla(network: str, rounds: int) -> Measurement:
    """Both compilers in turns on a network's train step."""
    runs: dict[str, list[Measurement]] = {"ours": [], "xla": []}
    for turn in range(rounds):
        for side in sorted(runs, reverse=bool(turn % 2)):
            runs[side].append(measure(f"{side}:{network}"))
    seconds = {side: [run["seconds"] for run in each] for side, each in runs.items()}
    ratios = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds["xla"], strict=True)]
    return {
        "seconds": {side: spread(values) for side, values in seconds.items()},
        "planning_seconds": spread([run["planning_seconds"] for run in runs["ours"]]),
        "steps": runs["ours"][0]["steps"],
        "ratio": spread(ratios),
    }


def estimate_of_block(rounds: int) -> Measurement:
    """The estimate of a transformer block of 1.8 billion weights, as a user sees it."""
    runs = [measure("ours:block") for _ in range(rounds)]
    return {
        "seconds": spread([run["estimate_seconds"] for run in runs]),
        "peak_gib": spread([run["peak_bytes"] / 2**30 for run in runs]),
    }


def against_scalesim(python: str, rounds: int, count: int = 0) -> Measurement:
    """Planning ResNet-50's layers, forward, for one image, and SCALE-Sim's simulation of them.

    Args:
        python: A Python that can import `scalesim`; "" leaves the comparison out.
        rounds: How often we plan. SCALE-Sim takes minutes and runs once, between our rounds.
        count: Number of layers that SCALE-Sim simulates, those of the fewest products, while we
            plan all of them, so the ratio is a lower bound. 0 takes all.
    """
    runs = [measure("planner")]
    theirs = None
    if python:
        layers = sorted(runs[0]["layers"], key=_products)[: count or None]
        theirs = json_of([python, "-I", str(SCALESIM_WORKER)], json.dumps(layers))["seconds"]
    runs += [measure("planner") for _ in range(rounds - 1)]
    seconds = [run["seconds"] for run in runs]
    result = {"layers": len(runs[0]["layers"]), "seconds": spread(seconds)}
    if theirs is None:
        return result | {"scalesim": "not measured: no --scalesim-python was given"}
    ratio = spread([theirs / ours for ours in seconds])
    return result | {
        "scalesim_layers": len(layers),
        "scalesim_seconds": significant(theirs),
        "ratio": ratio,
    }


def _products(layer: list[int]) -> float:
    """Returns the multiplications of a layer as `scalesim_worker` takes it, roughly."""
    rows, columns, kernel_rows, kernel_columns, inputs, outputs, stride = layer
    return rows * columns / stride**2 * kernel_rows * kernel_columns * inputs * outputs


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures everything and returns the result as plain data.

    Raises:
        WorkerError: A measurement failed.
    """
    common, load = facts(), OtherLoad()
    return {
        "benchmark": "compile",
        "what": "seconds of the other / seconds of ipu_tf, measured on the host",
        **common,
        "rounds": options.rounds,
        "against_xla_cpu": {name: against_xla(name, options.rounds) for name in NETWORKS},
        "estimate_of_1.8_billion_weights": estimate_of_block(options.rounds),
        "run_with_cached_program_seconds": spread(
            [measure("hit")["seconds"] for _ in range(options.rounds)]
        ),
        "resnet50_layers": against_scalesim(
            options.scalesim_python, options.rounds, options.scalesim_layers
        ),
        "cores_used_by_others": load.cores(),
    }


def json_of(command: list[str], text: str = "") -> Measurement:
    """The JSON object in the last line that a command prints.

    Raises:
        WorkerError: The command failed.
    """
    process = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if process.returncode:
        raise WorkerError(f"{' '.join(command)} failed: {process.stderr.strip()[-2000:]}")
    result: Measurement = json.loads(process.stdout.splitlines()[-1])
    return result
