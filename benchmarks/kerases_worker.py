"""One side of a network of the `kerases` benchmark: a process that trains on request.

It uses the protocol of `benchmarks.fit_worker`. Started as `benchmarks.kerases_worker NETWORK
OPTIMIZER SIDE`; the sides are the Keras that the networks are made of, "2" and "3".
"""

from __future__ import annotations

import importlib
import sys

from ipu_tf import compat


def main(network: str, optimizer: str, side: str) -> None:
    """Serves requests until the input ends."""
    compat.install(keras=int(side))
    # It imports Keras.
    importlib.import_module("benchmarks.kinds_worker").main(network, optimizer, "ipu_tf")


if __name__ == "__main__":
    main(*sys.argv[1:])
