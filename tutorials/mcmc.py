"""Samples networks that predict a series, over a window that slides along it.

A network of three dense layers, 22 -> 40 -> 1 -> 1 with 963 weights, predicts the next value of a
series from the 22 before it; the errors have a Student-t distribution. For each window of 256 rows,
Hamiltonian Monte Carlo samples the weights: four chains, one on each IPU of a Bow-2000. By default
the script takes a small part of the work, about a minute; `--full` takes all 200 windows, 400
samples of a chain after a burn-in of 100, 1,000 leapfrog steps each, and says first how long that
will take.
With `--directory`, a run that was stopped goes on where it was.

python -m tutorials.mcmc [--full] [--windows N] [--samples N] [--leapfrog-steps N] [--directory D]
"""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from ipu_tf import IPUConfig, IPUStrategy, mcmc

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise SystemExit("This tutorial needs matplotlib. Install it: pip install matplotlib") from None

INPUTS, UNITS, ROWS = 22, 40, 256
WINDOWS, SAMPLES, LEAPFROG_STEPS = 200, 400, 1000
SHAPES = ((INPUTS, UNITS), (UNITS,), (UNITS, 1), (1,), (1, 1), (1,))
SIZES = tuple(int(np.prod(shape)) for shape in SHAPES)
NOISE, FREEDOM = 0.1, 2.2
"""Scale and degrees of freedom of the series around the network, in Student's t-distribution."""
STEP_SIZE = 2e-3


def make_series(length: int) -> np.ndarray:
    """Returns a series of two waves whose frequencies drift, with noise."""
    time_ = np.arange(length)
    drift = 1.0 + 0.2 * np.sin(time_ / 900.0)
    waves = np.sin(0.11 * time_ * drift) + 0.5 * np.sin(0.37 * time_)
    noise = NOISE * np.random.default_rng(0).standard_t(FREEDOM, size=length)
    return (0.6 * waves + noise).astype("float32")


def window_of(series: np.ndarray, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows of a window, [ROWS, INPUTS], and the values that follow them, [ROWS]."""
    part = series[index * ROWS // 8 :][: ROWS + INPUTS]
    x = np.lib.stride_tricks.sliding_window_view(part, INPUTS)[:ROWS]
    return x.copy(), part[INPUTS : INPUTS + ROWS]


def predict(weights: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Returns what a network with these weights, in one vector, predicts for each row."""
    parts = tf.split(weights, SIZES, axis=-1)
    w1, b1, w2, b2, w3, b3 = (
        tf.reshape(part, shape) for part, shape in zip(parts, SHAPES, strict=True)
    )
    hidden = tf.tanh(x @ w1 + b1) @ w2 + b2
    return tf.squeeze(hidden @ w3 + b3, -1)


def posterior(x: tf.Variable, y: tf.Variable) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the log-density of the weights, given the rows in two variables."""

    def log_density(weights: tf.Tensor) -> tf.Tensor:
        errors = tfp.distributions.StudentT(FREEDOM, predict(weights, x), NOISE)
        return tf.reduce_sum(errors.log_prob(y)) - 0.5 * tf.reduce_sum(weights**2)

    return log_density


def predictions(draws: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns what the networks of all draws, [..., weights], predict: [..., rows]."""
    parts = np.split(draws, np.cumsum(SIZES)[:-1], axis=-1)
    lead = draws.shape[:-1]
    w1, b1, w2, b2, w3, b3 = (
        part.reshape(*lead, *(shape if len(shape) == 2 else (1, *shape)))
        for part, shape in zip(parts, SHAPES, strict=True)
    )
    return ((np.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3)[..., 0]


def plot(path: Path, y: np.ndarray, draws: np.ndarray) -> None:
    """Draws the series and the range in which nine of ten predictions lie."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots()
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
    rows = np.arange(len(y))
    axes.fill_between(rows, low, high, alpha=0.3, label="9 of 10 predictions")
    axes.plot(rows, middle, label="median prediction")
    axes.plot(rows, y, ".", markersize=2, label="series")
    axes.set(xlabel="row of the window", ylabel="value")
    axes.legend(ncols=3)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> None:
    """Samples the windows, one after the other."""
    options = _options(arguments)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 4  # Those of a Bow-2000.
    cfg.configure_ipu_system()
    strategy = IPUStrategy()
    series = make_series(ROWS * (WINDOWS // 8 + 2))
    with strategy.scope():
        x, y = tf.Variable(tf.zeros([ROWS, INPUTS])), tf.Variable(tf.zeros([ROWS]))
    kernel = tfp.mcmc.HamiltonianMonteCarlo(
        posterior(x, y), step_size=np.float32(STEP_SIZE), num_leapfrog_steps=options.leapfrog_steps
    )
    weights = 0.1 * np.random.default_rng(1).normal(size=sum(SIZES)).astype("float32")

    def sample(window: int, samples: int, directory: Path | None) -> tfp.mcmc.StatesAndTrace:
        rows, targets = window_of(series, window)
        x.assign(rows)
        y.assign(targets)
        with strategy.scope():
            return mcmc.sample_chain(
                samples,
                weights,
                kernel=kernel,
                num_burnin_steps=samples // 4,
                num_steps_between_results=0,
                trace_fn=lambda state, results: results.is_accepted,
                seed=window,
                block_size=min(samples, 20),
                directory=directory,
                progress=options.progress,
            )

    _say_expected_time(options, sample)
    for window in range(options.windows):
        directory = options.directory and options.directory / f"window_{window:03d}"
        states, accepted = sample(window, options.samples, directory)
        # Networks whose units change places are the same network: what they predict counts.
        rows, targets = window_of(series, window)
        found = predictions(states, rows)
        r_hat = np.asarray(tfp.mcmc.potential_scale_reduction(found))
        size = np.asarray(tfp.mcmc.effective_sample_size(found, cross_chain_dims=1))
        print(
            f"window {window}: accepted {accepted.mean():.0%}; of the predictions, R-hat "
            f"{np.median(r_hat):.2f} in the median and {r_hat.max():.2f} at most, "
            f"{np.median(size):.0f} effective samples of {options.samples * 4} in the median"
        )
    noise = NOISE * np.random.default_rng(2).standard_t(FREEDOM, size=found.shape)
    plot(options.plot, targets, (found + noise).reshape(-1, ROWS))
    print(f"The predictions of the last window are in {options.plot}.")
    _say_modelled_time(strategy, options)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="all windows, samples and steps")
    parser.add_argument("--windows", type=int)
    parser.add_argument("--samples", type=int, help="of each chain in a window")
    parser.add_argument("--leapfrog-steps", type=int, help="of a sample")
    parser.add_argument("--directory", type=Path, help="keeps the draws, and where the run is")
    parser.add_argument("--plot", type=Path, default=Path("mcmc.png"))
    parser.add_argument("--progress", action="store_true", help="show a bar for each window")
    options = parser.parse_args(arguments)
    sizes = (WINDOWS, SAMPLES, LEAPFROG_STEPS) if options.full else (2, 200, 200)
    for name, size in zip(("windows", "samples", "leapfrog_steps"), sizes, strict=True):
        if getattr(options, name) is None:
            setattr(options, name, size)
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1.")
    return options


def _say_expected_time(options: argparse.Namespace, sample: Callable[..., object]) -> None:
    """Samples a little, twice: the first time compiles."""
    few = 4
    sample(0, few, None)
    start = time.perf_counter()
    sample(0, few, None)
    steps = few + few // 4
    per_sample = (time.perf_counter() - start) / steps
    total = options.windows * (options.samples + options.samples // 4) * per_sample
    length = datetime.timedelta(seconds=round(total))
    print(f"{options.windows} windows will take about {length} (h:mm:ss) on this machine.")


def _say_modelled_time(strategy: IPUStrategy, options: argparse.Namespace) -> None:
    """Prints the time of a leapfrog step, a sample, a window and all windows on the machine."""
    programs = strategy.report(insights=False).programs
    device = max(
        (program.device for program in programs if program.device is not None),
        key=lambda device: device.cycles,
    )
    leapfrog = max(device.steps, key=lambda step: step.repeats).repeats
    step = device.cycles / device.target.clock_hz / leapfrog
    sample = step * options.leapfrog_steps
    window = sample * (options.samples + options.samples // 4)
    print(
        f"On the Bow-2000, as modelled: {step * 1e6:.1f} us a leapfrog step, "
        f"{sample * 1e3:.2f} ms a sample, {window:.2f} s a window, "
        f"{window * options.windows:,.1f} s for all of them; each IPU samples a chain of its own."
    )


if __name__ == "__main__":
    main()
