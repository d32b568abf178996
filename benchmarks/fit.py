"""`python -m benchmarks fit`: training CIFAR-10's network, tile ops against stock Keras.

Each side lives in a process of its own, with the same environment and threads, and both feed on
the same generated images. Both first try the same settings and keep the fastest; then they take
turns, round by round. A ratio above 1 means that `ipu_tf` is faster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from types import TracebackType
from typing import Any

from benchmarks.summary import facts, significant, spread

ENGINES = ("stock", "ipu_tf")
SETTINGS: tuple[dict[str, Any], ...] = (
    {"steps_per_execution": 1, "jit_compile": False},
    {"steps_per_execution": 10, "jit_compile": False},
    {"steps_per_execution": 50, "jit_compile": False},
    {"steps_per_execution": 10, "jit_compile": True},
)
TRIAL_STEPS = 50


class WorkerError(Exception):
    """A worker answered that it failed, or ended."""


class Worker:
    """A process that trains with one engine; see `benchmarks.fit_worker`."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fit_worker", engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The worker ends when its input does.
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sends a request and waits for the reply.

        Raises:
            WorkerError: The worker failed; the message has its reason.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise WorkerError(f"The {self.engine} worker has no pipes.")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"The {self.engine} worker ended while it worked on {request}.")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise WorkerError(f"The {self.engine} worker failed: {reply['error']}")
        return reply

    def images_per_second(self, steps: int) -> float:
        """Trains for `steps` steps and returns the speed."""
        return float(self.ask({"steps": steps})["images_per_second"])


def try_settings(worker: Worker) -> list[dict[str, Any]]:
    """The speed of each setting, or the reason why it does not run."""
    trials = []
    for settings in SETTINGS:
        try:
            worker.ask({"prepare": settings})
            speed = significant(worker.images_per_second(TRIAL_STEPS))
            trials.append({**settings, "images_per_second": speed})
        except WorkerError as error:
            trials.append({**settings, "error": str(error)})
    return trials


def fastest(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings of the fastest trial.

    Raises:
        WorkerError: None of them ran.
    """
    ran = [trial for trial in trials if "images_per_second" in trial]
    if not ran:
        raise WorkerError(f"No setting ran. Received: {trials[0]['error']}")
    best = max(ran, key=lambda trial: float(trial["images_per_second"]))
    return {name: best[name] for name in ("steps_per_execution", "jit_compile")}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures both engines in turns and returns the result as plain data.

    Raises:
        WorkerError: An engine does not train.
    """
    common = facts()
    with Worker("stock") as stock, Worker("ipu_tf") as tile:
        workers = {worker.engine: worker for worker in (stock, tile)}
        trials = {engine: try_settings(worker) for engine, worker in workers.items()}
        chosen = {engine: fastest(trials[engine]) for engine in ENGINES}
        for engine, worker in workers.items():
            worker.ask({"prepare": chosen[engine]})
        speeds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        for turn in range(options.rounds):
            for engine in ENGINES if turn % 2 == 0 else ENGINES[::-1]:
                speeds[engine].append(workers[engine].images_per_second(options.steps))
    ratios = [ours / theirs for ours, theirs in zip(speeds["ipu_tf"], speeds["stock"], strict=True)]
    return {
        "benchmark": "fit",
        "what": "images/s of ipu_tf / images/s of stock Keras, measured on the host",
        **common,
        "network": "tutorials/cifar10.py, dropout on, float32",
        "batch": [64, 32, 32, 3],
        "rounds": options.rounds,
        "steps_per_round": options.steps,
        "trials": trials,
        "settings": chosen,
        "images_per_second": {engine: spread(values) for engine, values in speeds.items()},
        "ratio": spread(ratios),
    }
