"""`python -m benchmarks kerases`: `fit` of models of Keras 2 against those of Keras 3, on the IPU.

Each side runs in a separate process, and they take turns, round by round; after the rounds both
start again. A ratio above 1 means that the models of Keras 2, which are those of tf_keras as
scripts get them, are faster. The CPU time says it, too, where other processes run beside.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.fit import Settings
from benchmarks.kinds import start
from benchmarks.summary import OtherLoad, containing, facts, significant, spread

SIDES = ("3", "2")
SETTINGS: Settings = {"steps_per_execution": 10, "jit_compile": False}
NETWORKS = ("mlp", "cnn", "lstm")
WANTED = 0.97
"""The lowest ratio that each network should reach."""


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures both sides of a network.

    Args:
        name: Its name in `kinds_networks`.
        options: The options `rounds` and `restarts`.

    Raises:
        WorkerError: A side does not train.
    """
    # Imported here: a command that only parses its line has no use for TensorFlow.
    from benchmarks.kinds_networks import NETWORKS as ALL

    network = ALL[name]
    command = ("benchmarks.kerases_worker", name, network.optimizer)
    settings = dict.fromkeys(SIDES, SETTINGS)
    starts = [
        start(command, settings, network.steps, options.rounds) for _ in range(options.restarts)
    ]

    def figures(key: str) -> list[list[float]]:
        return [[reply[key] for each in starts for reply in each[side]] for side in SIDES]

    speeds, seconds = figures("images_per_second"), figures("cpu_seconds")
    return {
        "name": name,
        "what": network.what,
        "wanted": WANTED,
        "samples_per_second": dict(zip(SIDES, map(spread, speeds), strict=True)),
        "ratio": spread([two / three for three, two in zip(*speeds, strict=True)])
        | {"of_fastest_rounds": significant(max(speeds[1]) / max(speeds[0]))},
        "cpu_seconds": dict(zip(SIDES, map(spread, seconds), strict=True)),
        "ratio_of_cpu_seconds": spread([three / two for three, two in zip(*seconds, strict=True)])
        | {"of_fastest_rounds": significant(min(seconds[0]) / min(seconds[1]))},
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all networks, or those asked for, and returns the result as plain data.

    Raises:
        BenchmarkError: No network has such a name.
        WorkerError: A side does not train.
    """
    common, load = facts(), OtherLoad()
    results = [measure(name, options) for name in containing(options.only, NETWORKS)]
    return {
        "benchmark": "kerases",
        "what": "samples/s of models of Keras 2 / of Keras 3 in fit on the IPU, on the host",
        **common,
        "cores_used_by_others": load.cores(),
        "rounds": options.rounds,
        "restarts": options.restarts,
        "results": results,
    }
