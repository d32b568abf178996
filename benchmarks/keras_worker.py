"""One side of a case of the `keras` benchmark: a process that trains on request.

It uses the protocol of `benchmarks.fit_worker`. Started as `benchmarks.keras_worker CASE SIDE`; the
sides are "stock" and "ipu_tf", those of the case "memory" are numbers of replicas.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.datasets import endless
from benchmarks.replies import serve
from benchmarks.summary import peak_bytes
from ipu_tf import IPUConfig, IPUStrategy
from tutorials import cifar10

CLASSES = 10
BATCHES = 400
REPLICAS = 4
MICRO_BATCHES = 8


def mlp(*units: int) -> keras.Sequential:
    """A network of dense layers over 784 features."""
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(count, activation="relu") for count in units]
    head = keras.layers.Dense(CLASSES, activation="softmax")
    return keras.Sequential([keras.Input((784,)), *hidden, head])


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The setup of one side of a case.

    Attributes:
        build: Makes the network.
        optimizer: Makes the optimizer.
        strategy: Makes the strategy of a number of replicas, or None.
        features: Shape of a sample.
        batch: Samples of a batch of one replica.
        replicas: Replicas that share a step.
        global_batches: Whether a batch of the dataset is for all replicas.
        micro_batches: Batches of a weight update that the model, not the optimizer, accumulates.
    """

    build: Callable[[], keras.Model]
    optimizer: Callable[[], keras.optimizers.Optimizer]
    strategy: Callable[[int], tf.distribute.Strategy | None]
    features: tuple[int, ...] = (784,)
    batch: int = 32
    replicas: int = 1
    global_batches: bool = False
    micro_batches: int = 1


def on_ipus(replicas: int, engine: str = "auto") -> tf.distribute.Strategy:
    """The strategy of so many IPUs, whose programs this engine runs."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = replicas
    cfg.simulator.engine = engine
    cfg.configure_ipu_system()
    return IPUStrategy()


def on_virtual_cpus(replicas: int) -> tf.distribute.Strategy:
    """A MirroredStrategy on so many virtual CPUs."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    virtual = [tf.config.LogicalDeviceConfiguration() for _ in range(replicas)]
    tf.config.set_logical_device_configuration(cpu, virtual)
    return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)])


def without(replicas: int) -> None:
    """No strategy: stock Keras on one device."""
    del replicas


def sgd() -> keras.optimizers.Optimizer:
    """Plain SGD."""
    return keras.optimizers.SGD(0.016)


def accumulating_sgd() -> keras.optimizers.Optimizer:
    """SGD that accumulates gradients itself."""
    return keras.optimizers.SGD(0.016, gradient_accumulation_steps=MICRO_BATCHES)


def side_of(case: str, side: str) -> Side:
    """Returns the setup of one side of a case."""
    on_ipu = side == "ipu_tf"
    strategy = on_ipus if on_ipu else without
    if case == "mlp":
        return Side(build=lambda: mlp(128), optimizer=sgd, strategy=strategy)
    if case == "cifar10":
        return Side(
            build=cifar10.make_model,
            optimizer=sgd,
            strategy=strategy,
            features=(32, 32, 3),
            batch=64,
        )
    if case == "replicas":
        return Side(
            build=lambda: mlp(128),
            optimizer=sgd,
            strategy=on_ipus if on_ipu else on_virtual_cpus,
            replicas=REPLICAS,
            global_batches=not on_ipu,
        )
    if case == "accumulation":
        return Side(
            build=lambda: mlp(128),
            optimizer=sgd if on_ipu else accumulating_sgd,
            strategy=strategy,
            micro_batches=MICRO_BATCHES if on_ipu else 1,
        )
    return Side(
        build=lambda: mlp(2048, 2048),
        optimizer=keras.optimizers.Adam,
        strategy=on_ipus,
        replicas=int(side),
    )


def dataset_of(side: Side) -> tf.data.Dataset:
    """Generated samples with one-hot labels, without end."""
    random = np.random.default_rng(0)
    batch = side.batch * (side.replicas if side.global_batches else 1)
    count = batch * (BATCHES if len(side.features) == 1 else 50)
    x = random.random((count, *side.features), dtype=np.float32)
    y = np.eye(CLASSES, dtype=np.float32)[random.integers(0, CLASSES, count)]
    return endless((x, y), batch)


class Trainer:
    """The models of one side, one for each requested setting."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._strategy = side.strategy(side.replicas)
        self._dataset = dataset_of(side)
        self._models: dict[str, keras.Model] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request; a failure is a reply too, and names its reason."""
        try:
            key = json.dumps(request["settings"])
            if key not in self._models:
                self._models[key] = self._prepare(request["settings"])
            speed = self._train(self._models[key], request["steps"])
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"images_per_second": speed, "peak_bytes": peak_bytes()}

    def _prepare(self, settings: dict[str, Any]) -> keras.Model:
        side = self._side
        with self._strategy.scope() if self._strategy else contextlib.nullcontext():
            model = side.build()
            model.compile(
                loss="categorical_crossentropy",
                optimizer=side.optimizer(),
                metrics=["accuracy"],
                **settings,
            )
        if side.micro_batches > 1:
            model.set_gradient_accumulation_options(side.micro_batches, "mean")
        self._train(model, max(10, settings.get("steps_per_execution", 1)))
        return model

    def _train(self, model: keras.Model, steps: int) -> float:
        """Trains for so many steps of each replica; returns samples a second."""
        side = self._side
        # IPUs count the batches of all replicas.
        batches = steps if side.global_batches else steps * side.replicas
        start = time.perf_counter()
        model.fit(self._dataset, epochs=1, steps_per_epoch=batches, shuffle=False, verbose=0)
        return steps * side.batch * side.replicas / (time.perf_counter() - start)


def main(case: str, side: str) -> None:
    """Serves requests until the input ends."""
    serve(lambda: Trainer(side_of(case, side)))


if __name__ == "__main__":
    main(*sys.argv[1:])
