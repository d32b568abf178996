"""`python -m benchmarks ops`: tile ops against TensorFlow's own, shape by shape.

Each layer of `benchmarks.shapes` is measured forward and for both gradients. One measurement is
a graph that runs the op many times; the tile graph and the stock graph take turns in the same
process and share its threads. A ratio above 1 means that the tile op is faster.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import ipu_tf.ops
from benchmarks.shapes import LAYERS, Layer
from benchmarks.summary import OtherLoad, containing, facts, geometric_mean, significant, spread

PASSES = ("forward", "input_gradient", "weight_gradient")
# A round runs the op for about this long, so the call of the graph does not matter.
SECONDS_PER_ROUND = 0.03
MOST_REPEATS = 2000

Op = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
# Runs the op a number of times.
Run = Callable[[tf.Tensor], tf.Tensor]


def layer_ops(layer: Layer) -> dict[str, Op]:
    """The layer as a function of input and weights, once by tile ops and once by stock ones."""
    if layer.is_dense:
        return {"tile": ipu_tf.ops.matmul, "stock": tf.matmul}
    options: dict[str, Any] = {"strides": layer.stride, "padding": layer.padding}
    return {
        "tile": lambda x, w: ipu_tf.ops.conv2d(x, w, **options),
        "stock": lambda x, w: tf.nn.conv2d(x, w, **options),
    }


def one_pass(op: Op, pass_: str, x: tf.Tensor, w: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    """The result of one pass; the forward op of a gradient is pruned from the graph."""
    if pass_ == "forward":
        return op(x, w)
    source = x if pass_ == "input_gradient" else w
    with tf.GradientTape() as tape:
        tape.watch(source)
        y = op(x, w)
    return tape.gradient(y, source, output_gradients=dy)


def repeated(op: Op, pass_: str, layer: Layer, seed: int) -> Run:
    """A graph that runs one pass of a layer again and again on the same random tensors."""
    random = np.random.default_rng(seed)
    shapes = (layer.input, layer.weights, layer.output)
    x, w, dy = (tf.constant(random.normal(size=shape), tf.float32) for shape in shapes)

    @tf.function(autograph=False)
    def run(times: tf.Tensor, x: tf.Tensor, w: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        def step(turn: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # Reading one element keeps the op alive at negligible cost.
            return turn + 1, total + tf.reshape(one_pass(op, pass_, x, w, dy), [-1])[0]

        # One at a time: executions side by side would hide how well an op uses the threads.
        loop = tf.while_loop(lambda turn, _: turn < times, step, (0, 0.0), parallel_iterations=1)
        return loop[1]

    return lambda times: run(times, x, w, dy)


def seconds(run: Run, times: int) -> float:
    """Time of one execution, measured over `times` of them."""
    start = time.perf_counter()
    run(tf.constant(times)).numpy()
    return (time.perf_counter() - start) / times


def times_in_round(runs: Sequence[Run]) -> int:
    """How often ops run in a round of the slowest of them; traces them first."""
    for run in runs:
        seconds(run, 2)  # traces, and lets oneDNN make its primitives
    slowest = max(seconds(run, 5) for run in runs)
    return max(1, min(MOST_REPEATS, round(SECONDS_PER_ROUND / slowest)))


def keep_in_loops() -> None:
    """Turns off what would hoist an op out of the measuring loop and leave nothing to measure."""
    tf.config.optimizer.set_experimental_options({"loop_optimization": False})


def measure(layer: Layer, pass_: str, rounds: int) -> dict[str, Any]:
    """Compares the two ops on one pass of one layer.

    Returns:
        The shapes, the median microseconds and GFLOP/s of both ops, and the spread over the
        rounds of stock time divided by tile time.
    """
    print(f"{layer.name}, {pass_}", file=sys.stderr)
    runs = {name: repeated(op, pass_, layer, seed=1) for name, op in layer_ops(layer).items()}
    times = times_in_round(list(runs.values()))
    op_seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        order = list(runs) if turn % 2 == 0 else list(runs)[::-1]
        for name in order:
            op_seconds[name].append(seconds(runs[name], times))
    medians = {name: float(np.median(values)) for name, values in op_seconds.items()}
    ratios = [
        stock / tile for stock, tile in zip(op_seconds["stock"], op_seconds["tile"], strict=True)
    ]
    return {
        "layer": layer.name,
        "pass": pass_,
        "input": list(layer.input),
        "weights": list(layer.weights),
        "stride": layer.stride,
        "padding": None if layer.is_dense else layer.padding,
        "microseconds": {name: significant(value * 1e6) for name, value in medians.items()},
        "fastest_microseconds": {
            name: significant(min(values) * 1e6) for name, values in op_seconds.items()
        },
        "gflop_per_second": {
            name: significant(layer.flop / value / 1e9) for name, value in medians.items()
        },
        "ratio": spread(ratios)
        | {"of_fastest_rounds": significant(min(op_seconds["stock"]) / min(op_seconds["tile"]))},
    }


def layers_named(part: str) -> list[Layer]:
    """The layers with `part` in their name.

    Raises:
        BenchmarkError: There are none.
    """
    names = containing(part, [layer.name for layer in LAYERS])
    return [layer for layer in LAYERS if layer.name in names]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures every chosen layer and pass and returns the result as plain data.

    Raises:
        BenchmarkError: No layer's name contains `options.only`.
    """
    layers = layers_named(options.only)
    common, load = facts(), OtherLoad()
    keep_in_loops()
    results = [measure(layer, pass_, options.rounds) for layer in layers for pass_ in PASSES]
    medians = {
        pass_: [entry["ratio"]["median"] for entry in results if entry["pass"] == pass_]
        for pass_ in PASSES
    }
    everything = [ratio for ratios in medians.values() for ratio in ratios]
    return {
        "benchmark": "ops",
        "what": "stock time / tile time, float32, measured on the host",
        **common,
        "cores_used_by_others": load.cores(),
        "rounds": options.rounds,
        "ratio": {
            "geometric_mean": geometric_mean(everything),
            "geometric_mean_of_fastest_rounds": geometric_mean(
                [entry["ratio"]["of_fastest_rounds"] for entry in results]
            ),
            "min": min(everything),
            "max": max(everything),
            "geometric_mean_by_pass": {
                pass_: geometric_mean(ratios) for pass_, ratios in medians.items()
            },
        },
        "results": results,
    }
