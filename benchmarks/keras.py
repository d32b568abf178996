"""`python -m benchmarks keras`: the training loop against stock Keras at its best settings.

Each side of a case runs in a separate process. Both first try their settings in turns and
keep the fastest; then they take turns, round by round. A ratio above 1 means that `ipu_tf` is
faster. The memory of replicas is the peak resident size of whole processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import first_step
from benchmarks.errors import WorkerError
from benchmarks.fit import Settings, Worker, fastest
from benchmarks.summary import OtherLoad, containing, facts, significant, spread

TRIAL_ROUNDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case that both sides run.

    Attributes:
        name: Its name, known to `benchmarks.keras_worker`.
        what: The comparison, in words.
        steps: Batches of one replica in a round, a multiple of every `steps_per_execution`.
        stock: Settings that stock Keras tries.
        ipu_tf: Settings that ipu_tf tries.
        wanted: The lowest acceptable ratio.
    """

    name: str
    what: str
    steps: int
    stock: Sequence[Settings]
    ipu_tf: Sequence[Settings]
    wanted: float


def _loops(*lengths: int, jit_compile: bool = False) -> list[Settings]:
    return [{"steps_per_execution": steps, "jit_compile": jit_compile} for steps in lengths]


CASES = (
    Case(
        name="mlp",
        what="784-128-10 at batch 32, SGD",
        steps=2000,
        stock=[*_loops(1, 10, 50, 200), *_loops(50, jit_compile=True)],
        ipu_tf=_loops(10, 50, 200),
        wanted=1.5,
    ),
    Case(
        name="cifar10",
        what="tutorials/cifar10.py at batch 64, dropout on, SGD",
        steps=50,
        stock=[*_loops(1, 10, 50), *_loops(10, jit_compile=True)],
        ipu_tf=_loops(1, 10, 50),
        wanted=1.1,
    ),
    Case(
        name="replicas",
        what="784-128-10, 4 replicas of batch 32 against MirroredStrategy on 4 virtual CPUs",
        steps=200,
        stock=[*_loops(1, 10), *_loops(10, jit_compile=True)],
        ipu_tf=[*_loops(10, 50), *_loops(50, jit_compile=True)],
        wanted=1.5,
    ),
    Case(
        name="accumulation",
        what="784-128-10 at batch 32, gradients of 8 micro-batches, SGD",
        steps=2000,
        stock=[*_loops(1, 8, 40, 200), *_loops(40, jit_compile=True)],
        ipu_tf=_loops(40, 200),
        wanted=1.1,
    ),
)
MEMORY_STEPS = 8
FIRST_STEP_ROUNDS = 3


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """Measures both sides of a case in turns.

    Raises:
        WorkerError: A side does not train with any of its settings.
    """
    command = ("benchmarks.keras_worker", case.name)
    settings = {"stock": case.stock, "ipu_tf": case.ipu_tf}
    with Worker("stock", command) as stock, Worker("ipu_tf", command) as tile:
        workers = (stock, tile)
        trials = {
            w.engine: [trial(w, each, case.steps) for each in settings[w.engine]] for w in workers
        }
        best_settings = {engine: fastest(trials[engine]) for engine in settings}
        speeds: dict[str, list[float]] = {engine: [] for engine in settings}
        for turn in range(rounds):
            for worker in workers if turn % 2 == 0 else workers[::-1]:
                engine = worker.engine
                speeds[engine].append(worker.images_per_second(best_settings[engine], case.steps))
    ratios = [ours / theirs for ours, theirs in zip(speeds["ipu_tf"], speeds["stock"], strict=True)]
    return {
        "name": case.name,
        "what": case.what,
        "wanted": case.wanted,
        "trials": trials,
        "settings": best_settings,
        "samples_per_second": {engine: spread(values) for engine, values in speeds.items()},
        "ratio": spread(ratios)
        | {"of_fastest_rounds": significant(max(speeds["ipu_tf"]) / max(speeds["stock"]))},
    }


def trial(worker: Worker, settings: Settings, steps: int) -> dict[str, Any]:
    """The best speed of a worker with a setting, or the reason why it does not run."""
    try:
        speed = max(worker.images_per_second(settings, steps) for _ in range(TRIAL_ROUNDS))
    except WorkerError as error:
        return {"settings": settings, "error": str(error).splitlines()[0]}
    return {"settings": settings, "images_per_second": significant(speed)}


def replica_memory() -> dict[str, Any]:
    """The peak memory of processes that train one replica and four."""
    peaks = {}
    for engine in ("1", "4"):
        with Worker(engine, ("benchmarks.keras_worker", "memory")) as worker:
            peaks[engine] = int(worker.ask({"settings": {}, "steps": MEMORY_STEPS})["peak_bytes"])
    return {
        "name": "memory",
        "what": "peak resident bytes of a process that trains 784-2048-2048-10 with Adam",
        "wanted_at_most": 1.3,
        "peak_bytes": {f"{replicas} replicas": peak for replicas, peak in peaks.items()},
        "ratio": significant(peaks["4"] / peaks["1"]),
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all cases, or those asked for, and returns the result as plain data.

    Raises:
        BenchmarkError: No case has such a name.
        WorkerError: A side does not train.
    """
    common, load = facts(), OtherLoad()
    chosen = containing(options.only, [*(case.name for case in CASES), "memory", "first_step"])
    results = [measure(case, options.rounds) for case in CASES if case.name in chosen]
    if "memory" in chosen:
        results.append(replica_memory())
    if "first_step" in chosen:
        results.append(first_step.measure(min(options.rounds, FIRST_STEP_ROUNDS)))
    return {
        "benchmark": "keras",
        "what": "samples/s of ipu_tf / samples/s of stock Keras in fit, measured on the host",
        **common,
        "cores_used_by_others": load.cores(),
        "rounds": options.rounds,
        "results": results,
    }
