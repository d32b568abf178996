"""Chains meet what is known: stock draws, closed forms, and the ranks of calibrated posteriors."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from ipu_tf import IPUConfig, IPUStrategy, config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

    from ipu_tf import mcmc

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ENGINES = ["graph", "xla"]
ERRORS = 4.0
"""Monte Carlo errors by which a mean may miss; one of 16,000 misses by more."""


@pytest.fixture
def scope():
    def configured(engine, ipus=1):
        cfg = IPUConfig()
        cfg.auto_select_ipus = ipus
        cfg.ipu_model.tiles_per_ipu = 64
        cfg.simulator.engine = engine
        cfg.configure_ipu_system()
        return IPUStrategy().scope()

    yield configured
    config.reset_ipu_configuration()


def hmc(density, step_size, steps):
    return tfp.mcmc.HamiltonianMonteCarlo(
        density, step_size=np.float32(step_size), num_leapfrog_steps=steps
    )


def network():
    """Returns the log-density of a network of 8 inputs and 6 tanh units, and a start."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 8)).astype("float32")
    y = np.tanh(x @ rng.normal(size=8)).astype("float32")

    def density(w1, w2):
        errors = tf.squeeze(tf.matmul(tf.tanh(tf.matmul(x, w1)), w2), -1) - y
        prior = tf.reduce_sum(w1**2) + tf.reduce_sum(w2**2)
        return -0.5 * (tf.reduce_sum(errors**2) / 0.04 + prior)

    start = [0.3 * rng.normal(size=shape).astype("float32") for shape in ((8, 6), (6, 1))]
    return density, start


@pytest.mark.parametrize("engine", ENGINES)
def test_ten_samples_equal_those_of_stock(scope, engine):
    density, start = network()
    options = {
        "num_results": 10,
        "current_state": start,
        "seed": [3, 4],
        "trace_fn": lambda state, results: (results.is_accepted, results.log_accept_ratio),
    }
    with scope(engine):
        found = mcmc.sample_chain(kernel=hmc(density, 0.02, 10), **options)
    stock = tf.function(
        lambda: tfp.mcmc.sample_chain(kernel=hmc(density, 0.02, 10), **options),
        jit_compile=engine == "xla",
    )
    with tf.device("/cpu:0"):
        states, (accepted, _) = stock()
    assert set(np.asarray(accepted)) == {True, False}
    np.testing.assert_array_equal(found.trace[0], accepted)
    for ours, theirs in zip(found.all_states, states, strict=True):
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * scale)


def assert_moments(draws, mean, covariance):
    """Holds the moments of draws, [results, chains, n], against known ones.

    Chains are independent: how their own moments spread tells the error of the moments of all.
    """
    for name, of_chains, known in (
        ("mean", draws.mean(0), mean),
        (
            "covariance",
            np.einsum("dci,dcj->cij", draws - mean, draws - mean) / len(draws),
            covariance,
        ),
    ):
        error = of_chains.std(0, ddof=1) / np.sqrt(len(of_chains))
        missed = np.abs(of_chains.mean(0) - known) / error
        assert missed.max() < ERRORS, f"{name} misses by {missed.max():.1f} Monte Carlo errors"
        assert (error < 0.1 * np.sqrt(np.diag(covariance)).max()).all()  # The errors say something.


@pytest.mark.parametrize("engine", ENGINES)
def test_a_correlated_gaussian_is_sampled_right(scope, engine):
    mean = np.array([1.0, -2.0, 0.5])
    covariance = np.array([[1.0, 0.8, -0.3], [0.8, 2.0, 0.1], [-0.3, 0.1, 0.5]])
    precision = np.linalg.inv(covariance).astype("float32")

    def density(z):
        centred = z - mean.astype("float32")
        return -0.5 * tf.reduce_sum(centred * tf.matmul(centred, precision), -1)

    with scope(engine, ipus=4):
        states = mcmc.sample_chain(
            1000,
            tf.zeros([16, 3]),
            kernel=hmc(density, 0.35, 5),
            num_burnin_steps=50,
            trace_fn=None,
            seed=2,
            block_size=1000,
            num_replicas=4,
        )
    assert states.shape == (1000, 4, 16, 3)
    chains = states.reshape(1000, 64, 3).astype("float64")
    assert_moments(chains, mean, covariance)
    r_hat = tfp.mcmc.potential_scale_reduction(chains, split_chains=True)
    assert np.asarray(r_hat).max() < 1.01


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bayesian_linear_regression_meets_its_closed_form(scope, engine):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 4)) @ np.array(
        [[1, 0.5, 0, 0], [0, 1, 0.5, 0], [0, 0, 1, 0.5], [0, 0, 0, 1]]
    )
    y = x @ np.array([0.5, -1.0, 0.0, 2.0]) + 0.5 * rng.normal(size=40)
    covariance = np.linalg.inv(x.T @ x / 0.25 + np.eye(4))
    rows, targets = x.astype("float32"), y.astype("float32")

    def density(weights):
        errors = tf.matmul(weights, rows, transpose_b=True) - targets
        return -0.5 * (tf.reduce_sum(errors**2, -1) / 0.25 + tf.reduce_sum(weights**2, -1))

    with scope(engine):
        states = mcmc.sample_chain(
            500,
            tf.zeros([64, 4]),
            kernel=hmc(density, 0.02, 8),
            num_burnin_steps=50,
            trace_fn=None,
            seed=5,
            block_size=500,
        )
    assert_moments(states.astype("float64"), covariance @ x.T @ y / 0.25, covariance)


def ranks(scope, noise):
    """Ranks of 400 draws from a prior among 19 draws from the posteriors of their data.

    Each data set is a chain. Its five values are the draw plus noise of deviation 1; the posterior
    believes in the deviation `noise`.
    """
    rng = np.random.default_rng(7)
    drawn = rng.normal(size=400).astype("float32")
    data = drawn[:, None] + rng.normal(size=(400, 5)).astype("float32")

    def density(z):
        return -0.5 * (z**2 + tf.reduce_sum((data - z[:, None]) ** 2, -1) / noise**2)

    with scope("xla"):
        states = mcmc.sample_chain(
            19,
            tf.zeros([400]),
            kernel=hmc(density, 0.2, 4),
            num_burnin_steps=30,
            num_steps_between_results=5,
            trace_fn=None,
            seed=11,
            block_size=19,
        )
    return (states < drawn).sum(0)


@pytest.mark.parametrize(("noise", "uniform"), [(1.0, True), (0.5, False)])
def test_posteriors_are_calibrated(scope, noise, uniform):
    counts = np.bincount(ranks(scope, noise) // 2, minlength=10)
    assert counts.sum() == 400
    chance = stats.chisquare(counts).pvalue
    assert chance > 0.01 if uniform else chance < 1e-6
