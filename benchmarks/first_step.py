"""The time from building the model to the first trained step, in scope and in stock Keras.

Each measurement runs in a separate process, so no cache is warm, and the sides take turns. In scope
the time includes the device program.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

from benchmarks.compile import json_of
from benchmarks.summary import significant, spread

NETWORKS = ("mlp", "cifar10", "resnet50")
SIDES = ("stock", "ipu_tf")
WANTED_RATIO = 1.5
WANTED_SECONDS = 2.0


def measure(rounds: int) -> dict[str, Any]:
    """Both sides in turns, network by network; an extra round, not counted, warms the disk.

    A network is within bounds if its median is at most 1.5 times stock's, or two seconds above it.

    Raises:
        WorkerError: A side does not train.
    """
    networks = {}
    for network in NETWORKS:
        seconds: dict[str, list[float]] = {side: [] for side in SIDES}
        for turn in range(rounds + 1):
            for side in SIDES if turn % 2 else SIDES[::-1]:
                duration = json_of([sys.executable, "-m", __name__, network, side])["seconds"]
                if turn:
                    seconds[side].append(duration)
        networks[network] = comparison(seconds)
    return {
        "name": "first_step",
        "what": "seconds from building a model to the end of its first step, in a fresh process",
        "wanted_at_most": f"{WANTED_RATIO} x stock's, or {WANTED_SECONDS} s more",
        "networks": networks,
    }


def comparison(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """The figures of a network from the seconds of both sides."""
    spreads = {side: spread(values) for side, values in seconds.items()}
    stock, ours = (spreads[side]["median"] for side in SIDES)
    return {
        "seconds": spreads,
        "ratio": significant(ours / stock),
        "within_bounds": ours <= max(WANTED_RATIO * stock, stock + WANTED_SECONDS),
    }


def first_step(network: str, side: str) -> float:
    """Builds, compiles and trains one batch; returns the seconds it took."""
    # Imported here: the parent process has no use for TensorFlow.
    import numpy as np

    from benchmarks.compile_worker import NETWORKS as builders
    from ipu_tf import IPUConfig, IPUStrategy

    build, batch_size = builders[network]
    cfg = IPUConfig()
    cfg.simulator.out_of_memory = "warn"  # Measures ResNet-50 even if it does not fit.
    cfg.configure_ipu_system()
    strategy = IPUStrategy() if side == "ipu_tf" else None
    begin = time.perf_counter()
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = build()
    x = np.zeros((batch_size, *model.inputs[0].shape[1:]), np.float32)
    model.fit(x, np.zeros((batch_size,), np.int32), batch_size=batch_size, verbose=0)
    return time.perf_counter() - begin


def main(network: str, side: str) -> None:
    """Prints the seconds of one measurement."""
    print(json.dumps({"seconds": first_step(network, side)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
