"""`python -m benchmarks loops`: training steps in a loop of the device, against stock loops.

All sides train the same small network on the same data, in one process. Each side tries its
settings first and keeps the fastest; then they take turns, round by round. A ratio above 1 means
that `ipu_tf` is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import tensorflow as tf

from benchmarks.datasets import endless
from benchmarks.summary import OtherLoad, facts, significant, spread, times_in_turns
from ipu_tf import IPUStrategy, loops
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedQueue

WANTED = {"function_per_step": 2.0, "loop_in_function": 1.0}
"""The ratio to each stock side that the loop has to reach."""

BATCH, FEATURES, UNITS = 32, 16, 32
TRIAL_ROUNDS = 3

Side = Callable[[], np.ndarray]
"""Trains for the steps of a round; returns the loss of each."""


class Network:
    """A network of one hidden layer, with its weights."""

    def __init__(self) -> None:
        self.weights = [
            tf.Variable(0.1 * tf.random.stateless_normal([FEATURES, UNITS], [1, 2])),
            tf.Variable(tf.zeros([UNITS])),
            tf.Variable(0.1 * tf.random.stateless_normal([UNITS, 1], [3, 4])),
        ]

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Updates the weights for one batch; returns its loss."""
        kernel, bias, output = self.weights
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.matmul(x, kernel) + bias)
            loss = tf.reduce_mean((tf.matmul(hidden, output) - y) ** 2)
        for weight, gradient in zip(self.weights, tape.gradient(loss, self.weights), strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss


def batches() -> tf.data.Dataset:
    """The data of all sides."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20 * BATCH, FEATURES)).astype("f")
    y = rng.normal(size=(20 * BATCH, 1)).astype("f")
    return endless((x, y), BATCH).prefetch(16)


def function_per_step(steps: int, jit_compile: bool) -> Side:
    """Stock TensorFlow: the host calls a function for each step."""
    network, iterator = Network(), iter(batches())
    step = tf.function(network.step, jit_compile=jit_compile)

    @tf.function
    def next_step(iterator: Any) -> tf.Tensor:
        return step(*next(iterator))

    return lambda: np.array([next_step(iterator) for _ in range(steps)])


def loop_in_function(steps: int, jit_compile: bool) -> Side:
    """Stock TensorFlow: a function has the loop inside."""
    network, iterator = Network(), iter(batches())
    step = tf.function(network.step, jit_compile=jit_compile)

    @tf.function
    def train(iterator: Any) -> tf.Tensor:
        losses = tf.TensorArray(tf.float32, steps)
        for index in tf.range(steps):
            losses = losses.write(index, step(*next(iterator)))
        return losses.stack()

    return lambda: train(iterator).numpy()


def repeat(steps: int, jit_compile: bool) -> Side:
    """`loops.repeat` with an infeed and an outfeed."""
    network, strategy = Network(), IPUStrategy()
    infeed, outfeed = IPUInfeedQueue(batches()), IPUOutfeedQueue()

    @tf.function(jit_compile=jit_compile)
    def loop() -> None:
        loops.repeat(steps, lambda x, y: outfeed.enqueue(network.step(x, y)), [], infeed)

    @tf.function
    def train() -> None:
        loop()

    def run() -> np.ndarray:
        strategy.run(train)
        losses: np.ndarray = cast("tf.Tensor", outfeed.dequeue()).numpy()
        return losses

    return run


SIDES: Mapping[str, Callable[[int, bool], Side]] = {
    "function_per_step": function_per_step,
    "loop_in_function": loop_in_function,
    "ipu_tf": repeat,
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all sides in turns and returns the result as plain data."""
    common, load, steps = facts(), OtherLoad(), options.steps
    candidates = {
        (name, jit): make(steps, jit) for name, make in SIDES.items() for jit in (False, True)
    }
    losses = {key: side() for key, side in candidates.items()}  # Traced here.
    trials = times_in_turns(candidates, TRIAL_ROUNDS)
    modes = {name: min(trials[name, True]) < min(trials[name, False]) for name in SIDES}
    times = times_in_turns(
        {name: candidates[name, jit] for name, jit in modes.items()}, options.rounds
    )
    ratios = {
        name: [theirs / ours for theirs, ours in zip(times[name], times["ipu_tf"], strict=True)]
        for name in WANTED
    }
    reference = losses["function_per_step", False]
    return {
        "benchmark": "loops",
        "what": "time of stock TensorFlow / time of ipu_tf, measured on the host",
        **common,
        "cores_used_by_others": load.cores(),
        "network": f"{FEATURES} -> {UNITS} -> 1, batches of {BATCH}, float32",
        "rounds": options.rounds,
        "steps_per_round": steps,
        "settings": {name: {"jit_compile": jit} for name, jit in modes.items()},
        "largest_difference_of_losses": significant(
            max(float(np.abs(loss - reference).max()) for loss in losses.values())
        ),
        "milliseconds": {
            name: spread([1000 * seconds for seconds in values]) for name, values in times.items()
        },
        "ratio": {
            name: spread(values)
            | {
                "of_fastest_rounds": significant(min(times[name]) / min(times["ipu_tf"])),
                "wanted": WANTED[name],
            }
            for name, values in ratios.items()
        },
    }
