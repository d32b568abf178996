"""One number of threads of the `ops --threads` benchmark: a process that runs ops on request.

It uses the protocol of `benchmarks.replies`. Started as `benchmarks.ops_worker THREADS`, it has as
many cores and TensorFlow as many threads. A request names a layer by its number in
`benchmarks.shapes.LAYERS`, a pass, a side ("tile" or "stock"), and how often to run it; without
`times` the answer says how often it runs in a round.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import tensorflow as tf

from benchmarks import ops
from benchmarks.replies import serve
from benchmarks.shapes import LAYERS


class Runner:
    """The graphs of all ops that were asked for."""

    def __init__(self) -> None:
        ops.keep_in_loops()
        self._runs: dict[tuple[int, str, str], ops.Run] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request: seconds of one execution, and how many a round has."""
        try:
            run = self._run(request["layer"], request["pass"], request["side"])
            times = request["times"] or ops.times_in_round([run])
            return {"seconds": ops.seconds(run, times), "times": times}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _run(self, number: int, pass_: str, side: str) -> ops.Run:
        key = number, pass_, side
        if key not in self._runs:
            layer = LAYERS[number]
            self._runs[key] = ops.repeated(ops.layer_ops(layer)[side], pass_, layer, seed=1)
        return self._runs[key]


def main(threads: str) -> None:
    """Serves requests until the input ends."""
    count = int(threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    tf.config.threading.set_intra_op_parallelism_threads(count)
    serve(Runner)


if __name__ == "__main__":
    main(sys.argv[1])
