"""`python -m benchmarks mcmc`: Hamiltonian Monte Carlo of a network, against stock TensorFlow.

All sides sample from the posterior of one small network over 256 rows of data in one process; they
take turns, round by round. `ipu_tf` has its default configuration. Stock TensorFlow runs the same
program of TensorFlow Probability as a graph and by XLA. Where they are installed, TensorFlow
Probability on JAX, BlackJAX and NumPyro sample from the same posterior, for comparison. A ratio
above 1 means that `ipu_tf` is faster.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import jax_samplers
from benchmarks.summary import OtherLoad, facts, significant, spread, times_in_turns
from ipu_tf import IPUStrategy

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

WANTED = 1.0
"""The ratio to the faster stock side that every number of chains has to reach."""
WANTED_FIRST = 1.5
"""How much longer than by stock XLA the first call may take, which compiles."""

ROWS, INPUTS, UNITS, LEAPFROG_STEPS, STEP_SIZE = 256, 22, 40, 100, 1e-4
CHAINS = (1, 8, 64)
SHAPES = ((INPUTS, UNITS), (UNITS,), (UNITS, UNITS), (UNITS,), (UNITS, 1), (1,))
SIZES = tuple(int(np.prod(shape)) for shape in SHAPES)

Side = Callable[[], np.ndarray]
"""Samples for a round; returns the states."""


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs, [rows, inputs], and targets, [rows]."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, INPUTS)).astype("f")
    return x, np.tanh(x @ rng.normal(size=INPUTS)).astype("f")


def starts(chains: int) -> np.ndarray:
    """Returns the first weights of each chain, [chains, weights]."""
    return 0.1 * np.random.default_rng(1).normal(size=(chains, sum(SIZES))).astype("f")


def log_density(chains: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the log-density of the weights of so many networks, [chains, weights]."""
    x, y = rows()
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
    kernel = tfp.mcmc.HamiltonianMonteCarlo(
        log_density(chains), step_size=np.float32(STEP_SIZE), num_leapfrog_steps=LEAPFROG_STEPS
    )

    def sample(weights: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return tfp.mcmc.sample_chain(samples, weights, kernel=kernel, seed=seed, trace_fn=None)

    start = starts(chains)
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


def jax_sides(chains: int, samples: int) -> tuple[dict[str, Side], dict[str, str]]:
    """Returns the sides that need JAX, and why each other cannot run."""
    x, y = rows()
    return jax_samplers.sides(
        jax_samplers.Posterior(
            x=x,
            y=y,
            shapes=SHAPES,
            start=starts(chains),
            step_size=STEP_SIZE,
            leapfrog_steps=LEAPFROG_STEPS,
            samples=samples,
        )
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all sides in turns and returns the result as plain data."""
    common, load = facts(), OtherLoad()
    with_jax, absent = jax_sides(1, options.samples)
    common["versions"] |= jax_samplers.versions(with_jax)
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
        "absent": absent,
        "chains": cases,
    }


def _case(chains: int, samples: int, rounds: int) -> dict[str, Any]:
    """Returns the figures of one number of chains."""
    others_of_jax, _ = jax_sides(chains, samples)
    candidates = sides(chains, samples) | others_of_jax
    first, states = {}, {}
    for name, side in candidates.items():
        begin = time.perf_counter()
        states[name] = side()
        first[name] = time.perf_counter() - begin
    times = times_in_turns(candidates, rounds)
    stock = min(("graph", "xla"), key=lambda name: min(times[name]))
    steps = samples * LEAPFROG_STEPS
    return {
        "faster_stock_side": stock,
        "microseconds_a_leapfrog_step": {
            name: spread([1e6 * seconds / steps for seconds in values])
            for name, values in times.items()
        },
        "ratio": _ratio(times[stock], times["ipu_tf"]),
        "ratio_to_others": {name: _ratio(times[name], times["ipu_tf"]) for name in others_of_jax},
        "seconds_of_first_call": {name: significant(value) for name, value in first.items()},
        "first_call_to_that_of_xla": significant(first["ipu_tf"] / first["xla"]),
        "largest_difference_to_graph": significant(
            float(np.abs(states["ipu_tf"] - states["graph"]).max())
        ),
    }


def _ratio(theirs: list[float], ours: list[float]) -> dict[str, float]:
    """Returns by how much we are faster, round by round and in the fastest rounds."""
    by_round = [other / own for other, own in zip(theirs, ours, strict=True)]
    return spread(by_round) | {"of_fastest_rounds": significant(min(theirs) / min(ours))}
