"""One side of the `parts` benchmark: a process that trains on request.

It uses the protocol of `benchmarks.fit_worker`, but answers with the seconds of a weight update.
Started as `benchmarks.parts_worker NETWORK ENGINE SIDE`; the engine is that of
`simulator.engine`, the sides are "accumulation", "replicas", "stages", and policies of types, whose
updates take one batch.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import keras
import numpy as np
from keras import layers

from benchmarks.datasets import endless
from benchmarks.keras_worker import CLASSES, on_ipus
from benchmarks.replies import serve
from ipu_tf.ops.pipelining_ops import PipelineSchedule
from tutorials import cifar10

COUNT = 4
"""Replicas, stages, and micro-batches of an update."""
BATCH = 32
BATCHES = 80
SHAPES = {"mlp": (784,), "cnn": (32, 32, 3), "cifar10": (32, 32, 3)}


def network(name: str) -> tuple[keras.Model, list[int]]:
    """Makes a network; returns it, and the stage of each of its layers."""
    keras.utils.set_random_seed(1)
    if name == "cifar10":
        return cifar10.make_model(), []
    inputs = x = keras.Input(SHAPES[name])
    if name == "mlp":
        for _ in range(3):
            x = layers.Dense(512, activation="relu")(x)
        stages = [0, 1, 2, 3]
    else:
        for width in (32, 64):
            x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
            x = layers.Conv2D(width, 3, activation="relu")(x)
            x = layers.MaxPooling2D()(x)
        x = layers.Dense(512, activation="relu")(layers.Flatten()(x))
        stages = [0, 1, 1, 2, 3, 3, 3, 3, 3]
    return keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(x)), stages


class Trainer:
    """The model of one side.

    Args:
        name: A name in `SHAPES`.
        engine: What runs the loops.
        side: "accumulation", "replicas", "stages", or a policy of types.
    """

    def __init__(self, name: str, engine: str, side: str) -> None:
        is_divided = side in ("replicas", "stages")
        self._batches = COUNT if is_divided or side == "accumulation" else 1
        self._steps = self._batches // (COUNT if side == "replicas" else 1)
        self._strategy = on_ipus(COUNT if is_divided else 1, engine)
        random = np.random.default_rng(0)
        x = random.random((BATCH * BATCHES, *SHAPES[name]), np.float32)
        y = random.integers(0, CLASSES, len(x)).astype(np.int32)
        self._dataset = endless((x, y), BATCH)
        with self._strategy.scope():
            if self._batches == 1:
                keras.config.set_dtype_policy(side)
            self._model, stages = network(name)
            if side == "accumulation":
                self._model.set_gradient_accumulation_options(COUNT, "mean")
            elif side == "stages":
                self._pipeline(stages)
        self._updates = 0

    def _pipeline(self, stages: list[int]) -> None:
        assignment = self._model.get_pipeline_stage_assignment()
        for layer, stage in zip(assignment, stages, strict=True):
            layer.pipeline_stage = stage
        self._model.set_pipeline_stage_assignment(assignment)
        self._model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=COUNT,
            gradient_accumulation_reduction_method="mean",
            pipeline_schedule=PipelineSchedule.Interleaved,
        )

    def answer(self, request: dict[str, Any]) -> dict[str, float]:
        """The seconds of one of so many weight updates."""
        updates = request["settings"]["updates_per_execution"]
        if updates != self._updates:
            self._compile(updates)
        return {"seconds": self._train(request["steps"]) / request["steps"]}

    def _compile(self, updates: int) -> None:
        """Makes the training loop of so many updates, and runs it."""
        with self._strategy.scope():
            self._model.compile(
                keras.optimizers.SGD(1e-3),
                "sparse_categorical_crossentropy",
                steps_per_execution=updates * self._steps,
            )
        self._train(updates)
        self._updates = updates

    def _train(self, updates: int) -> float:
        """Trains for so many updates; returns the seconds."""
        begin = time.perf_counter()
        batches = updates * self._batches
        self._model.fit(self._dataset, steps_per_epoch=batches, shuffle=False, verbose=0)
        return time.perf_counter() - begin


def main(name: str, engine: str, side: str) -> None:
    """Serves requests until the input ends."""
    serve(lambda: Trainer(name, engine, side))


if __name__ == "__main__":
    main(*sys.argv[1:])
