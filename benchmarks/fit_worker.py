"""One side of the `fit` benchmark: a process that trains on request.

It reads requests as JSON lines on its input and answers each with one on its output:
{"settings": {"steps_per_execution": 10, "jit_compile": false}, "steps": 100} trains that many
steps with those settings and answers with the images per second. The first request with new
settings makes a model for them and warms it up, outside of the time that is measured.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.datasets import untuned
from benchmarks.replies import serve
from ipu_tf import IPUConfig, IPUStrategy
from tutorials import cifar10

BATCH_SIZE = 64
BATCHES = 50


def generated_images() -> cifar10.Images:
    """Random images of CIFAR-10's shape and type with random labels."""
    random = np.random.default_rng(0)
    count = BATCH_SIZE * BATCHES
    images = random.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return images, random.integers(0, cifar10.CLASSES, count)


def engine_scope(engine: str) -> contextlib.AbstractContextManager[Any]:
    """The scope of an engine's models: the strategy's, or none for stock Keras."""
    if engine == "stock":
        return contextlib.nullcontext()
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    # The host's speed counts, even where one IPU is too small.
    cfg.simulator.out_of_memory = "warn"
    cfg.configure_ipu_system()
    return IPUStrategy().scope()


def prepare(dataset: tf.data.Dataset, settings: dict[str, Any]) -> Callable[[int], float]:
    """Makes and warms up a model; the result trains a number of steps and returns images/s."""
    keras.utils.set_random_seed(1)
    model = cifar10.make_model()
    model.compile(
        loss="categorical_crossentropy",
        optimizer=keras.optimizers.SGD(0.016),
        metrics=["accuracy"],
        **settings,
    )

    def train(steps: int) -> float:
        start = time.perf_counter()
        model.fit(dataset, epochs=1, steps_per_epoch=steps, shuffle=False, verbose=0)
        return steps * BATCH_SIZE / (time.perf_counter() - start)

    train(max(10, settings["steps_per_execution"]))
    return train


class Trainer:
    """The models of one engine, one for each requested setting."""

    def __init__(self) -> None:
        images = generated_images()
        self._dataset = untuned(cifar10.make_dataset(images, BATCH_SIZE, training=False).repeat())
        self._trains: dict[str, Callable[[int], float]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request; a failure is a reply too, and names its reason."""
        try:
            key = json.dumps(request["settings"])
            if key not in self._trains:
                self._trains[key] = prepare(self._dataset, request["settings"])
            return {"images_per_second": self._trains[key](request["steps"])}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}


def main(engine: str) -> None:
    """Serves requests until the input ends."""
    with engine_scope(engine):
        serve(Trainer)


if __name__ == "__main__":
    main(sys.argv[1])
