"""`python -m benchmarks mcmc`: Hamiltonian Monte Carlo of a network, against stock TensorFlow.

All sides sample from the posterior of one small network over 256 rows of data, with the same
program of TensorFlow Probability in one process; they take turns, round by round. `ipu_tf` has its
default configuration. Stock TensorFlow runs the program as a graph and by XLA. A ratio above 1
means that `ipu_tf` is faster.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.summary import OtherLoad, facts, significant, spread, timed
from ipu_tf import IPUStrategy

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

WANTED = 1.0
"""The ratio to the faster stock side that every number of chains has to reach."""
WANTED_FIRST = 1.5
"""How much longer than by stock XLA the first call may take, which compiles."""

ROWS, INPUTS, UNITS, LEAPFROG_STEPS = 256, 22, 40, 100
CHAINS = (1, 8, 64)
SHAPES = ((INPUTS, UNITS), (UNITS,), (UNITS, UNITS), (UNITS,), (UNITS, 1), (1,))
SIZES = tuple(int(np.prod(shape)) for shape in SHAPES)

Side = Callable[[], np.ndarray]
"""Samples for a round; returns the states."""


def log_density(chains: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the log-density of the weights of so many networks, [chains, weights]."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, INPUTS)).astype("f")
    y = np.tanh(x @ rng.normal(size=INPUTS)).astype("f")
    batch = [] if chains == 1 else [chains]

    def density(weights: tf.Tensor) -> tf.Tensor:
        parts = tf.split(weights, SIZES, axis=-1)
        w1, b1, w2, b2, w3, b3 = (
            tf.reshape(part, batch + ([1, *shape] if len(shape) == 1 and batch else list(shape)))
            for part, shape in zip(parts, SHAPES, strict=True)
        )
        hidden = tf.tanh(tf.tanh(x @ w1 + b1) @ w2 + b2)
        errors = tf.squeeze(hidden @ w3 + b3, -1) - y
        return -50.0 * tf.reduce_sum(errors**2, -1) - 0.5 * tf.reduce_sum(weights**2, -1)

    return density


def sampler(chains: int, samples: int) -> tuple[Callable[..., tf.Tensor], tuple[tf.Tensor, ...]]:
    """Returns the program of all sides, and its arguments."""
    rng = np.random.default_rng(1)
    kernel = tfp.mcmc.HamiltonianMonteCarlo(
        log_density(chains), step_size=np.float32(1e-4), num_leapfrog_steps=LEAPFROG_STEPS
    )

    def sample(weights: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return tfp.mcmc.sample_chain(samples, weights, kernel=kernel, seed=seed, trace_fn=None)

    start = 0.1 * rng.normal(size=(chains, sum(SIZES))).astype("f")
    return sample, (tf.constant(start[0] if chains == 1 else start), tf.constant([1, 2]))


def sides(chains: int, samples: int) -> dict[str, Side]:
    """Returns the sides; none is traced yet."""
    program, arguments = sampler(chains, samples)
    strategy = IPUStrategy()
    own, graph = tf.function(program), tf.function(program)
    xla = tf.function(program, jit_compile=True)
    return {
        "graph": lambda: graph(*arguments).numpy(),
        "xla": lambda: xla(*arguments).numpy(),
        "ipu_tf": lambda: strategy.run(own, args=arguments).numpy(),
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all sides in turns and returns the result as plain data."""
    common, load = facts(), OtherLoad()
    cases = {chains: _case(chains, options.samples, options.rounds) for chains in CHAINS}
    return {
        "benchmark": "mcmc",
        "what": "time of stock TensorFlow / time of ipu_tf, measured on the host",
        **common,
        "cores_used_by_others": load.cores(),
        "network": f"{INPUTS} -> {UNITS} -> {UNITS} -> 1, tanh, {ROWS} rows, float32",
        "leapfrog_steps": LEAPFROG_STEPS,
        "samples_per_round": options.samples,
        "rounds": options.rounds,
        "wanted": WANTED,
        "wanted_first": WANTED_FIRST,
        "chains": cases,
    }


def _case(chains: int, samples: int, rounds: int) -> dict[str, Any]:
    """Returns the figures of one number of chains."""
    candidates = sides(chains, samples)
    first, states = {}, {}
    for name, side in candidates.items():
        begin = time.perf_counter()
        states[name] = side()
        first[name] = time.perf_counter() - begin
    times = timed(candidates, rounds)
    stock = min(("graph", "xla"), key=lambda name: min(times[name]))
    steps = samples * LEAPFROG_STEPS
    return {
        "faster_stock_side": stock,
        "microseconds_a_leapfrog_step": {
            name: spread([1e6 * seconds / steps for seconds in values])
            for name, values in times.items()
        },
        "ratio": spread(
            [theirs / ours for theirs, ours in zip(times[stock], times["ipu_tf"], strict=True)]
        )
        | {"of_fastest_rounds": significant(min(times[stock]) / min(times["ipu_tf"]))},
        "seconds_of_first_call": {name: significant(value) for name, value in first.items()},
        "first_call_to_that_of_xla": significant(first["ipu_tf"] / first["xla"]),
        "largest_difference_to_graph": significant(
            float(np.abs(states["ipu_tf"] - states["graph"]).max())
        ),
    }
