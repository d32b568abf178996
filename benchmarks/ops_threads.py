"""`python -m benchmarks ops --threads 1 2`: how tile ops and TensorFlow's scale with threads.

Each number of threads is a process with as many cores. All processes and both sides take turns,
one at a time, round by round. A scaling of 2 means that an op takes half of the time that it takes
with the fewest threads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.fit import Worker
from benchmarks.ops import PASSES, layers_named
from benchmarks.shapes import LAYERS, Layer
from benchmarks.summary import OtherLoad, facts, geometric_mean, significant, spread

SIDES = ("tile", "stock")


def measure(workers: Mapping[int, Worker], layer: Layer, pass_: str, rounds: int) -> dict[str, Any]:
    """Compares one pass of a layer over numbers of threads.

    Args:
        workers: The workers by their numbers of threads, the fewest first.
        layer: The layer.
        pass_: The pass.
        rounds: Turns of each worker and side.

    Returns:
        Median microseconds of each side, the ratio of stock to tile, and the scaling from the
        fewest threads within rounds, each by number of threads.

    Raises:
        WorkerError: An op does not run.
    """
    print(f"{layer.name}, {pass_}", file=sys.stderr)
    runs = [(side, count) for side in SIDES for count in workers]
    request = {"layer": LAYERS.index(layer), "pass": pass_}
    times = {
        (side, count): workers[count].ask(request | {"side": side, "times": 0})["times"]
        for side, count in runs
    }
    taken: dict[tuple[str, int], list[float]] = {run: [] for run in runs}
    for turn in range(rounds):
        for side, count in runs if turn % 2 == 0 else runs[::-1]:
            asked = request | {"side": side, "times": times[side, count]}
            taken[side, count].append(workers[count].ask(asked)["seconds"])
    fewest = next(iter(workers))
    return {
        "layer": layer.name,
        "pass": pass_,
        "microseconds": {
            side: {
                count: significant(spread(taken[side, count])["median"] * 1e6) for count in workers
            }
            for side in SIDES
        },
        "ratio": {count: _ratio(taken["stock", count], taken["tile", count]) for count in workers},
        "scaling": {
            side: {
                count: _ratio(taken[side, fewest], taken[side, count])
                for count in workers
                if count != fewest
            }
            for side in SIDES
        },
    }


def _ratio(slower: Sequence[float], faster: Sequence[float]) -> dict[str, float]:
    return spread([one / other for one, other in zip(slower, faster, strict=True)])


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures every chosen layer and pass and returns the result as plain data.

    Raises:
        BenchmarkError: No layer's name contains `options.only`.
        WorkerError: An op does not run.
    """
    layers, threads = layers_named(options.only), sorted(set(options.threads))
    common, load = facts(), OtherLoad()
    with ExitStack() as stack:
        workers = {
            count: stack.enter_context(Worker(str(count), ("benchmarks.ops_worker",)))
            for count in threads
        }
        results = [
            measure(workers, layer, pass_, options.rounds) for layer in layers for pass_ in PASSES
        ]
    return {
        "benchmark": "ops_threads",
        "what": "stock time / tile time, and time with the fewest threads / time, float32",
        **common,
        "cores_used_by_others": load.cores(),
        "rounds": options.rounds,
        "ratio": {count: _mean([entry["ratio"][count] for entry in results]) for count in threads},
        "scaling": {
            side: {
                count: _mean([entry["scaling"][side][count] for entry in results])
                for count in threads[1:]
            }
            for side in SIDES
        },
        "results": results,
    }


def _mean(spreads: Sequence[Mapping[str, float]]) -> float:
    return geometric_mean([each["median"] for each in spreads])
