"""`python -m benchmarks fit`: training CIFAR-10's network, tile ops against stock Keras.

Each side runs in a separate process, with the same environment and threads, and both train on
the same generated images. Both first try the same settings, several times in turns, and keep the
fastest; then they take turns, round by round. A ratio above 1 means that `ipu_tf` is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any

from benchmarks.errors import WorkerError
from benchmarks.summary import OtherLoad, facts, significant, spread

ENGINES = ("stock", "ipu_tf")
SETTINGS = (
    {"steps_per_execution": 1, "jit_compile": False},
    {"steps_per_execution": 10, "jit_compile": False},
    {"steps_per_execution": 50, "jit_compile": False},
    {"steps_per_execution": 10, "jit_compile": True},
)
TRIAL_ROUNDS = 3
TRIAL_STEPS = 50

Settings = dict[str, Any]


class Worker:
    """A process that trains with one engine.

    Args:
        engine: The engine.
        command: Module and further arguments of the process; see `benchmarks.fit_worker`.
        environment: Variables of its environment, beside those of this process.
    """

    def __init__(
        self,
        engine: str,
        command: Sequence[str] = ("benchmarks.fit_worker",),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.engine = engine
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command, engine],
            env={**os.environ, **environment},
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

    def images_per_second(self, settings: Settings, steps: int) -> float:
        """Trains for `steps` steps and returns the speed."""
        return float(self.ask({"settings": settings, "steps": steps})["images_per_second"])


def try_settings(workers: Sequence[Worker]) -> dict[str, list[dict[str, Any]]]:
    """The best speed of each engine with each setting, or the reason why it does not run."""
    speeds: dict[tuple[str, int], list[float]] = {}
    errors: dict[tuple[str, int], str] = {}
    for _ in range(TRIAL_ROUNDS):
        for index, settings in enumerate(SETTINGS):
            for worker in workers:
                key = (worker.engine, index)
                try:
                    speed = worker.images_per_second(settings, TRIAL_STEPS)
                    speeds.setdefault(key, []).append(speed)
                except WorkerError as error:
                    errors[key] = str(error)

    def trial(key: tuple[str, int]) -> dict[str, Any]:
        if key in errors:
            return {"settings": SETTINGS[key[1]], "error": errors[key]}
        return {"settings": SETTINGS[key[1]], "images_per_second": significant(max(speeds[key]))}

    return {
        worker.engine: [trial((worker.engine, index)) for index in range(len(SETTINGS))]
        for worker in workers
    }


def fastest(trials: Sequence[dict[str, Any]]) -> Settings:
    """The settings of the fastest trial.

    Raises:
        WorkerError: None of them ran.
    """
    ran = [trial for trial in trials if "images_per_second" in trial]
    if not ran:
        raise WorkerError(f"No setting ran. Received: {trials[0]['error']}")
    settings: Settings = max(ran, key=lambda trial: float(trial["images_per_second"]))["settings"]
    return settings


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures both engines in turns and returns the result as plain data.

    Raises:
        WorkerError: An engine does not train.
    """
    common, load = facts(), OtherLoad()
    with Worker("stock") as stock, Worker("ipu_tf") as tile:
        workers = (stock, tile)
        trials = try_settings(workers)
        settings = {engine: fastest(trials[engine]) for engine in ENGINES}
        speeds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        for turn in range(options.rounds):
            for worker in workers if turn % 2 == 0 else workers[::-1]:
                engine = worker.engine
                speeds[engine].append(worker.images_per_second(settings[engine], options.steps))
    ratios = [ours / theirs for ours, theirs in zip(speeds["ipu_tf"], speeds["stock"], strict=True)]
    return {
        "benchmark": "fit",
        "what": "images/s of ipu_tf / images/s of stock Keras, measured on the host",
        **common,
        "cores_used_by_others": load.cores(),
        "network": "tutorials/cifar10.py, dropout on, float32",
        "batch": [64, 32, 32, 3],
        "rounds": options.rounds,
        "steps_per_round": options.steps,
        "trials": trials,
        "settings": settings,
        "images_per_second": {engine: spread(values) for engine, values in speeds.items()},
        "ratio": spread(ratios)
        | {"of_fastest_rounds": significant(max(speeds["ipu_tf"]) / max(speeds["stock"]))},
        "rounds_images_per_second": {
            engine: [significant(speed) for speed in values] for engine, values in speeds.items()
        },
    }
