"""`python -m benchmarks kinds`: one network of each kind, tile ops against stock Keras.

Each side runs in a separate process. First both try their settings and keep the fastest. Then
fresh processes, which train with these alone, take turns, round by round; after the rounds both
start again. A ratio above 1 means that `ipu_tf` is faster. Of stock Keras, in the graph executor,
the share of products (matmuls, convolutions) in the time of all ops is measured as well, one op at
a time: if products took just as long here and all else took no time, the ratio would be the
reciprocal.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from benchmarks.fit import Settings, Worker, fastest
from benchmarks.keras import trial
from benchmarks.summary import (
    OtherLoad,
    containing,
    facts,
    geometric_mean,
    significant,
    spread,
)

ENGINES = ("stock", "ipu_tf")
SETTINGS: tuple[Settings, ...] = tuple(
    {"steps_per_execution": steps, "jit_compile": jit} for jit in (False, True) for steps in (1, 10)
)
"""The settings that each side tries."""
BIG_SETTINGS: tuple[Settings, ...] = tuple(
    each for each in SETTINGS if each["steps_per_execution"] == 1
)
TRIAL_TURNS = 2
TRIALS_IN_A_ROUND = 3
"""A round that counts has so many times the steps of a trial: the start of `fit` weighs little."""
WANTED = MappingProxyType(
    {
        "mlp": 1.3,
        "cnn": 1.35,
        "residual": 1.4,
        "transformer": 1.2,
        "lstm": 1.5,
        "gru": 1.4,
        "depthwise": 1.35,
        "mobilenet": 1.35,
        "unet": 1.25,
        "graph": 1.25,
    }
)
"""The lowest ratio that each network should reach."""
BIG_WANTED = MappingProxyType({"resnet50": 1.1, "bert_base": 1.1})
AVX2_WANTED = 1.0
"""The lowest ratio of any network with `--avx2`."""
WANTED_MEMORY, BIG_WANTED_MEMORY = 1.2, 1.1
WANTED_FIRST_STEP = (1.2, 0.5)
"""A first step may take so many times stock's seconds, or so many seconds more."""


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures both sides of a network.

    Args:
        name: Its name in `kinds_networks`.
        options: The options `avx2`, `optimizer`, `rounds` and `restarts`.

    Raises:
        WorkerError: A side does not train with any of its settings.
    """
    # Imported here: a command that only parses its line has no use for TensorFlow.
    from benchmarks.kinds_networks import ALL_NETWORKS

    network, big = ALL_NETWORKS[name], name in BIG_WANTED
    settings_to_try = BIG_SETTINGS if big else SETTINGS
    optimizer = network.optimizer if options.optimizer == "own" else options.optimizer
    command = ("benchmarks.kinds_worker", name, optimizer)
    with Worker("stock", command) as stock, Worker("ipu_tf", command) as tile:
        trials = try_settings((stock, tile), settings_to_try, network.steps)
    share = _products_share(command, trials["stock"], network.steps)
    settings = {engine: fastest(trials[engine]) for engine in ENGINES}
    steps = network.steps if big else TRIALS_IN_A_ROUND * network.steps
    starts = [start(command, settings, steps, options.rounds) for _ in range(options.restarts)]
    speeds = {e: [r["images_per_second"] for s in starts for r in s[e]] for e in ENGINES}
    return {
        "name": name,
        "what": network.what,
        "batch": network.batch,
        "steps_of_a_round": steps,
        "optimizer": optimizer,
        "wanted": AVX2_WANTED if options.avx2 else (BIG_WANTED if big else WANTED)[name],
        "trials": trials,
        "settings": settings,
        "products": {"share_of_stock": significant(share), "bound": significant(1 / share)},
        "samples_per_second": {engine: spread(values) for engine, values in speeds.items()},
        "ratio": spread([o / t for o, t in zip(speeds["ipu_tf"], speeds["stock"], strict=True)])
        | {"of_fastest_rounds": significant(max(speeds["ipu_tf"]) / max(speeds["stock"]))},
        "first_step_seconds": _first_steps(
            _of_equal_steps(starts, settings, command, network.steps)
        ),
        "peak_bytes": _peaks(starts, BIG_WANTED_MEMORY if big else WANTED_MEMORY),
    }


def _products_share(
    command: tuple[str, ...], trials: Sequence[dict[str, Any]], steps: int
) -> float:
    """The share of products in the time of stock's ops, in the graph executor.

    TensorFlow runs one at a time: of ops side by side, each counts for as long as it takes on its
    part of the cores, and the share would say how they were scheduled.

    Args:
        command: See `Worker`.
        trials: Those of stock Keras.
        steps: The steps that are profiled, after as many that are not.

    Raises:
        WorkerError: Stock Keras does not train.
    """
    as_graph = [each for each in trials if not each["settings"]["jit_compile"]]
    request = {"settings": fastest(as_graph), "steps": steps}
    with Worker("stock", command, {"TF_NUM_INTEROP_THREADS": "1"}) as stock:
        stock.ask(request)
        return float(stock.ask(request | {"profile": True})["products_share"])


def try_settings(
    workers: Sequence[Worker], settings: Sequence[Settings], steps: int
) -> dict[str, list[dict[str, Any]]]:
    """The best trial of each setting, by engine; all settings of all sides take turns.

    Args:
        workers: The sides.
        settings: What each of them tries.
        steps: The steps of a trial.
    """
    turns = [
        {worker.engine: [trial(worker, each, steps) for each in settings] for worker in workers}
        for _ in range(TRIAL_TURNS)
    ]
    return {
        engine: [max(tries, key=_speed) for tries in zip(*(t[engine] for t in turns), strict=True)]
        for engine in turns[0]
    }


def _speed(one: Mapping[str, Any]) -> float:
    return float(one.get("images_per_second", 0.0))


Start = dict[str, list[dict[str, Any]]]
"""The replies of each side, round by round."""


def start(
    command: tuple[str, ...], settings: Mapping[str, Settings], steps: int, rounds: int
) -> Start:
    """Starts both sides and lets them take turns; a round more, not counted, warms them up.

    Args:
        command: See `Worker`.
        settings: The settings of each side.
        steps: The steps of a round.
        rounds: The turns of each side.

    Raises:
        WorkerError: A side does not train.
    """
    replies: Start = {engine: [] for engine in settings}
    first, second = settings
    with Worker(first, command) as one, Worker(second, command) as other:
        for turn in range(rounds + 1):
            for worker in (one, other) if turn % 2 == 0 else (other, one):
                request = {"settings": settings[worker.engine], "steps": steps}
                replies[worker.engine].append(worker.ask(request))
    return {engine: answers[1:] for engine, answers in replies.items()}


def _of_equal_steps(
    starts: list[Start], settings: Mapping[str, Settings], command: tuple[str, ...], steps: int
) -> list[Start]:
    """Starts whose first executions have equally many steps on both sides, those of stock's.

    Args:
        starts: The starts with the settings of each side, which may have different numbers.
        settings: These settings.
        command: See `Worker`.
        steps: The steps of a round.

    Raises:
        WorkerError: A side does not train.
    """
    steps_per_execution = settings["stock"]["steps_per_execution"]
    alike = settings["ipu_tf"] | {"steps_per_execution": steps_per_execution}
    if alike == settings["ipu_tf"]:
        return starts
    return [start(command, {**settings, "ipu_tf": alike}, steps, 1) for _ in starts]


def _median(starts: list[Start], name: str) -> dict[str, float]:
    """The median of a figure at the end of each start, of both sides."""
    return {e: statistics.median(start[e][-1][name] for start in starts) for e in ENGINES}


def _first_steps(starts: list[Start]) -> dict[str, Any]:
    """What both sides took until their first execution had ended."""
    first = _median(starts, "first_step_seconds")
    factor, margin = WANTED_FIRST_STEP
    within = first["ipu_tf"] <= max(factor * first["stock"], first["stock"] + margin)
    return {e: significant(value) for e, value in first.items()} | {"within_bounds": within}


def _peaks(starts: list[Start], wanted: float) -> dict[str, Any]:
    """The peak memory of both sides."""
    peak = _median(starts, "peak_bytes")
    within = peak["ipu_tf"] <= wanted * peak["stock"]
    return {e: int(value) for e, value in peak.items()} | {"within_bounds": within}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all networks, or those asked for, and returns the result as plain data.

    Raises:
        BenchmarkError: No network has such a name.
        WorkerError: A side does not train.
    """
    common, load = facts(), OtherLoad()
    names = BIG_WANTED if options.big else WANTED
    results = [measure(name, options) for name in containing(options.only, names)]
    return {
        "benchmark": "kinds" + "_big" * options.big + "_avx2" * options.avx2,
        "what": "samples/s of ipu_tf / samples/s of stock Keras in fit, measured on the host",
        **common,
        "cores_used_by_others": load.cores(),
        "rounds": options.rounds,
        "restarts": options.restarts,
        "geometric_mean": geometric_mean([result["ratio"]["median"] for result in results]),
        "results": results,
    }
