"""Samples the posterior of a linear regression with the No-U-Turn sampler.

The data are scikit-learn's measurements of 442 patients with diabetes. The posterior of a linear
regression is known, so the script prints by how much the samples miss it.

python -m tutorials.bayesian_regression [--samples N]
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from sklearn.datasets import load_diabetes

from ipu_tf import IPUConfig, IPUStrategy, mcmc

NOISE = 0.7
"""Standard deviation of the target beside what the features explain; the target's own is 1."""
PRIOR = 1.0
"""Standard deviation of each weight before the data are seen."""


def load() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Returns features and target, standardised, and the names of the features."""
    data = load_diabetes()
    x, y = data.data, data.target
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    return x.astype("float32"), y.astype("float32"), list(data.feature_names)


def closed_form(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and covariance of the posterior."""
    x, y = x.astype("float64"), y.astype("float64")
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(x.shape[1]) / PRIOR**2)
    return covariance @ x.T @ y / NOISE**2, covariance


def sample(x: np.ndarray, y: np.ndarray, samples: int, chains: int = 4) -> np.ndarray:
    """Returns draws of the weights, [samples, chains, features]."""

    def log_density(weights: tf.Tensor) -> tf.Tensor:
        errors = tf.matmul(weights, x, transpose_b=True) - y
        return -0.5 * (
            tf.reduce_sum(errors**2, -1) / NOISE**2 + tf.reduce_sum(weights**2, -1) / PRIOR**2
        )

    kernel = tfp.mcmc.NoUTurnSampler(log_density, step_size=0.02, max_tree_depth=6)
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(kernel, num_adaptation_steps=80)
    start = 0.1 * np.random.default_rng(0).normal(size=(chains, x.shape[1])).astype("float32")
    with IPUStrategy().scope():
        states = mcmc.sample_chain(
            samples,
            start,
            kernel=kernel,
            num_burnin_steps=100,
            trace_fn=None,
            seed=1,
            block_size=samples,
        )
    return np.asarray(states)


def main(arguments: list[str] | None = None) -> None:
    """Samples, and compares the samples with the posterior."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200, help="of each of four chains")
    options = parser.parse_args(arguments)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    x, y, names = load()
    states = sample(x, y, options.samples)
    mean, covariance = closed_form(x, y)
    deviation = np.sqrt(np.diag(covariance))
    r_hat = np.asarray(tfp.mcmc.potential_scale_reduction(states))
    size = np.asarray(tfp.mcmc.effective_sample_size(states, cross_chain_dims=1))
    print("feature   sampled          closed form      R-hat  effective samples")
    for index, name in enumerate(names):
        draws = states[..., index]
        print(
            f"{name:8} {draws.mean():6.3f} +- {draws.std():5.3f}  "
            f"{mean[index]:6.3f} +- {deviation[index]:5.3f}  "
            f"{r_hat[index]:6.3f}  {size[index]:6.0f}"
        )
    error = np.abs(states.mean((0, 1)) - mean) / (deviation / np.sqrt(size))
    print(f"The means miss the closed form by at most {error.max():.1f} Monte Carlo errors.")


if __name__ == "__main__":
    main()
