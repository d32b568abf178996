"""One side of a network of the `kinds` benchmark: a process that trains on request.

It uses the protocol of `benchmarks.fit_worker`. Started as `benchmarks.kinds_worker NETWORK
OPTIMIZER SIDE`; the sides are "stock" and "ipu_tf".
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import keras
import tensorflow as tf

from benchmarks.datasets import endless
from benchmarks.fit_worker import engine_scope
from benchmarks.kinds_networks import ALL_NETWORKS, Network
from benchmarks.op_shares import products_share
from benchmarks.replies import serve
from benchmarks.summary import peak_bytes

BATCHES = 20
OPTIMIZERS = {"sgd": keras.optimizers.SGD, "adam": keras.optimizers.Adam}
LEARNING_RATE = 1e-3


def dataset_of(network: Network) -> tf.data.Dataset:
    """Generated samples of a network, without end."""
    arrays, labels = network.samples(BATCHES)
    inputs = arrays if len(arrays) > 1 else arrays[0]
    return endless((inputs, labels), network.batch)


class Trainer:
    """The models of one side, one for each requested setting.

    Args:
        network: What they train.
        optimizer: Its name in `OPTIMIZERS`.
    """

    def __init__(self, network: Network, optimizer: str) -> None:
        self._network = network
        self._optimizer = OPTIMIZERS[optimizer]
        self._dataset = dataset_of(network)
        self._models: dict[str, tuple[keras.Model, float]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request; a failure is a reply too, and names its reason.

        With "profile", the reply has the share of products in the time of ops alone.
        """
        try:
            key = json.dumps(request["settings"])
            if key not in self._models:
                self._models[key] = self._prepare(request["settings"])
            model, first = self._models[key]
            begin = time.process_time()
            if request.get("profile"):
                share = products_share(lambda: self._train(model, request["steps"]))
                return {"products_share": share}
            speed = request["steps"] * self._network.batch / self._train(model, request["steps"])
            seconds = time.process_time() - begin
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {
            "images_per_second": speed,
            "cpu_seconds": seconds,
            "first_step_seconds": first,
            "peak_bytes": peak_bytes(),
        }

    def _prepare(self, settings: dict[str, Any]) -> tuple[keras.Model, float]:
        """Returns a model and the seconds up to the end of its first execution."""
        keras.utils.set_random_seed(1)
        # Imports leave Python a collection of all objects to do (0.25 s), some time later.
        gc.collect()
        begin = time.perf_counter()
        model = self._network.build()
        loss = "sparse_categorical_crossentropy"
        model.compile(self._optimizer(LEARNING_RATE), loss, metrics=["accuracy"], **settings)
        self._train(model, settings["steps_per_execution"])
        return model, time.perf_counter() - begin

    def _train(self, model: keras.Model, steps: int) -> float:
        """Trains for so many steps; returns the seconds."""
        start = time.perf_counter()
        model.fit(self._dataset, epochs=1, steps_per_epoch=steps, shuffle=False, verbose=0)
        return time.perf_counter() - start


def main(network: str, optimizer: str, side: str) -> None:
    """Serves requests until the input ends."""
    with engine_scope(side):
        serve(lambda: Trainer(ALL_NETWORKS[network], optimizer))


if __name__ == "__main__":
    main(*sys.argv[1:])
