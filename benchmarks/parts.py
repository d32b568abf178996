"""`python -m benchmarks parts`: replicas and stages against one IPU, float16 against float32.

An update by four replicas, by four stages, and by one that accumulates gradients takes four
micro-batches of the same shape through the same network, in one process, so the host has the same
products to compute; what is over is the cost of the parts. XLA compiles the loop of a small dense
network, but not that of its replicas, so these are also compared where both run as graphs. A
network in `mixed_float16` has the same products as in float32, and its roundings. Both sides take
turns, round by round; after the rounds both start again.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from benchmarks.fit import Settings
from benchmarks.kinds import start
from benchmarks.summary import OtherLoad, containing, facts, significant, spread

SETTINGS: Settings = {"updates_per_execution": 10}


@dataclass(frozen=True, slots=True)
class Case:
    """Two sides of a network.

    Attributes:
        network: Its name in `parts_worker`.
        one: The side that the other is compared with.
        other: The other side.
        updates: Of the weights, in a round.
        wanted_at_most: The highest acceptable ratio of their times.
        engine: What runs the loops of both.
    """

    network: str
    one: str
    other: str
    updates: int
    wanted_at_most: float
    engine: str = "auto"

    @property
    def name(self) -> str:
        """The network, the engine if it is chosen, and the sides."""
        engine = "" if self.engine == "auto" else f" by engine {self.engine}"
        return f"{self.network}{engine}: {self.other} / {self.one}"


CASES = (
    Case("mlp", "accumulation", "replicas", 200, 1.1),
    Case("mlp", "accumulation", "replicas", 200, 1.1, engine="graph"),
    Case("mlp", "accumulation", "stages", 200, 1.1),
    Case("cnn", "accumulation", "replicas", 20, 1.1),
    Case("cnn", "accumulation", "stages", 20, 1.1),
    Case("cifar10", "float32", "mixed_float16", 20, 1.6),
)


def measure(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Measures both sides of a case.

    Args:
        case: The case.
        options: The options `rounds` and `restarts`.

    Raises:
        WorkerError: A side does not train.
    """
    settings = dict.fromkeys((case.one, case.other), SETTINGS)
    command = ("benchmarks.parts_worker", case.network, case.engine)
    starts = [
        start(command, settings, case.updates, options.rounds) for _ in range(options.restarts)
    ]
    one, other = (
        [reply["seconds"] for each in starts for reply in each[side]] for side in settings
    )
    return {
        "name": case.name,
        "wanted_at_most": case.wanted_at_most,
        "milliseconds_of_an_update": {
            side: spread([1e3 * each for each in seconds])
            for side, seconds in zip(settings, (one, other), strict=True)
        },
        "ratio": spread([ours / theirs for theirs, ours in zip(one, other, strict=True)])
        | {"of_fastest_rounds": significant(min(other) / min(one))},
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all networks, or those asked for, and returns the result as plain data.

    Raises:
        BenchmarkError: No network has such a name.
        WorkerError: A side does not train.
    """
    common, load = facts(), OtherLoad()
    networks = containing(options.only, [case.network for case in CASES])
    results = [measure(case, options) for case in CASES if case.network in networks]
    return {
        "benchmark": "parts",
        "what": "host time of the other side / of the one, of updates in fit",
        **common,
        "cores_used_by_others": load.cores(),
        "rounds": options.rounds,
        "restarts": options.restarts,
        "results": results,
    }
