"""`python -m benchmarks parts`: four replicas, and four stages, against four micro-batches of one.

An update of each takes four micro-batches of the same shape through the same network, in one
process, so the host has the same products to compute; what is over is the cost of the parts. Both
sides take turns, round by round; after the rounds both start again.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.fit import Settings
from benchmarks.kinds import start
from benchmarks.summary import OtherLoad, facts, significant, spread

ONE, PARTS = "accumulation", ("replicas", "stages")
NETWORKS = ("mlp", "cnn")
UPDATES = {"mlp": 200, "cnn": 20}
"""Updates of the weights in a round."""
SETTINGS: Settings = {"updates_per_execution": 10}
WANTED_AT_MOST = 1.1
"""Host time of the parts over that of four accumulated micro-batches."""


def measure(network: str, part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures replicas or stages of a network against accumulation.

    Args:
        network: One of `NETWORKS`.
        part: One of `PARTS`.
        options: The options `rounds` and `restarts`.

    Raises:
        WorkerError: A side does not train.
    """
    settings = dict.fromkeys((ONE, part), SETTINGS)
    starts = [
        start(("benchmarks.parts_worker", network), settings, UPDATES[network], options.rounds)
        for _ in range(options.restarts)
    ]
    seconds = {
        side: [reply["seconds"] for each in starts for reply in each[side]] for side in settings
    }
    ratios = [ours / one for one, ours in zip(seconds[ONE], seconds[part], strict=True)]
    return {
        "name": f"{part} of {network}",
        "wanted_at_most": WANTED_AT_MOST,
        "milliseconds_of_an_update": {
            side: spread([1e3 * each for each in values]) for side, values in seconds.items()
        },
        "ratio": spread(ratios)
        | {"of_fastest_rounds": significant(min(seconds[part]) / min(seconds[ONE]))},
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all networks, or those asked for, and returns the result as plain data.

    Raises:
        WorkerError: A side does not train.
    """
    common, load = facts(), OtherLoad()
    results = [
        measure(network, part, options)
        for network in NETWORKS
        for part in PARTS
        if options.only in network
    ]
    return {
        "benchmark": "parts",
        "what": "host time of four replicas or stages / of four micro-batches of one, in fit",
        **common,
        "cores_used_by_others": load.cores(),
        "rounds": options.rounds,
        "restarts": options.restarts,
        "results": results,
    }
