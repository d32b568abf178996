"""Samplers and models of TensorFlow Probability draw in a run what they draw without."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from tests.grids import mostly_slow

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

tfd, tfb, tfm = tfp.distributions, tfp.bijectors, tfp.mcmc

pytestmark = pytest.mark.filterwarnings("ignore")

START = np.array([0.5, 1.5], "float32")
SEED = tf.constant([1, 2])
X = np.linspace(-1.0, 1.0, 12, dtype="float32")
Y = (1.3 * X + 0.2 * np.sin(9.0 * X)).astype("float32")


def log_density(z):
    return -0.5 * tf.reduce_sum((z - 1.0) ** 2 / tf.constant([1.0, 0.3]), -1)


def hmc(density=log_density, step_size=0.3):
    return tfm.HamiltonianMonteCarlo(density, step_size=step_size, num_leapfrog_steps=3)


def chain(kernel, start=START, results=10, trace=None):
    def fn():
        return tfm.sample_chain(
            results, tf.constant(start), kernel=kernel, seed=SEED, trace_fn=trace
        )

    return fn


def regression():
    def model():
        slope = yield tfd.Normal(0.0, 2.0, name="slope")
        noise = yield tfd.HalfNormal(1.0, name="noise")
        yield tfd.Normal(slope * X, noise + 0.1, name="y")

    return tfd.JointDistributionCoroutineAutoBatched(model)


def pinned():
    joint = regression().experimental_pin(y=Y)
    kernel = tfm.HamiltonianMonteCarlo(
        lambda slope, noise: joint.unnormalized_log_prob(slope=slope, noise=noise),
        step_size=0.05,
        num_leapfrog_steps=3,
    )
    kernel = tfm.TransformedTransitionKernel(kernel, [tfb.Identity(), tfb.Softplus()])
    start = [tf.constant(0.5), tf.constant(0.5)]
    return tfm.sample_chain(10, start, kernel=kernel, seed=SEED, trace_fn=None)


def windowed():
    joint = regression().experimental_pin(y=Y)
    draws, _ = tfp.experimental.mcmc.windowed_adaptive_nuts(
        10, joint, n_chains=2, num_adaptation_steps=50, max_tree_depth=3, seed=SEED
    )
    return draws.slope, draws.noise


def processes():
    kernel = tfp.math.psd_kernels.ExponentiatedQuadratic(1.0, 0.4)
    process = tfd.GaussianProcess(kernel, X[:, None], observation_noise_variance=0.05)
    regression = tfd.GaussianProcessRegressionModel(
        kernel, X[::2, None], X[:, None], Y, observation_noise_variance=0.05
    )
    return process.log_prob(Y), process.sample(3, seed=SEED), regression.mean()


def series():
    model = tfp.sts.Sum([tfp.sts.LocalLinearTrend(observed_time_series=Y)], observed_time_series=Y)
    parameters = [tf.constant(0.1), tf.constant(0.1), tf.constant(0.1)]
    filtered = model.make_state_space_model(len(Y), parameters)
    forecast = tfp.sts.forecast(model, Y, [p[None] for p in parameters], 4)
    return filtered.log_prob(Y[:, None]), forecast.mean(), forecast.stddev()


def particles():
    found = tfp.experimental.mcmc.particle_filter(
        Y,
        tfd.Normal(0.0, 1.0),
        transition_fn=lambda step, state: tfd.Normal(state, 0.1),
        observation_fn=lambda step, state: tfd.Normal(state, 0.2),
        num_particles=16,
        seed=SEED,
    )
    return found[3]


def minimum():
    found = tfp.optimizer.nelder_mead_minimize(
        lambda z: -log_density(z), initial_vertex=tf.constant(START), max_iterations=20
    )
    return found.position, found.objective_value


def distributions():
    """Draws by rejection, decompositions and special functions."""
    drawn = (
        tfd.Gamma(2.0, 3.0),
        tfd.Dirichlet([1.0, 2.0, 3.0]),
        tfd.StudentT(4.0, 0.0, 1.0),
        tfd.WishartTriL(4.0, tf.eye(2)),
        tfd.MultivariateNormalTriL([0.0, 1.0], [[1.0, 0.0], [0.5, 1.0]]),
    )
    draws = [each.sample(3, seed=SEED) for each in drawn]
    return draws, [each.log_prob(values) for each, values in zip(drawn, draws, strict=True)]


CASES = {
    "particle filter": particles,
    "nelder mead": minimum,
    "distributions": distributions,
    "hmc": chain(hmc(), trace=lambda state, results: results.is_accepted),
    "nuts": chain(tfm.NoUTurnSampler(log_density, 0.3, max_tree_depth=4)),
    "random walk": chain(tfm.RandomWalkMetropolis(log_density)),
    "mala": chain(tfm.MetropolisAdjustedLangevinAlgorithm(log_density, step_size=0.2)),
    "slices": chain(tfm.SliceSampler(log_density, step_size=0.5, max_doublings=3), results=4),
    "dual averaging": chain(
        tfm.DualAveragingStepSizeAdaptation(hmc(), num_adaptation_steps=6),
        trace=lambda state, results: results.new_step_size,
    ),
    "simple adaptation": chain(
        tfm.SimpleStepSizeAdaptation(hmc(), num_adaptation_steps=6),
        trace=lambda state, results: results.new_step_size,
    ),
    "transformed": chain(
        tfm.TransformedTransitionKernel(
            hmc(lambda z: log_density(z) - tf.reduce_sum(z, -1)), tfb.Exp()
        )
    ),
    "replica exchange": chain(
        tfm.ReplicaExchangeMC(log_density, [1.0, 0.3], lambda density: hmc(density)), results=5
    ),
    "joint distribution": pinned,
    "windowed nuts": windowed,
    "gaussian process": processes,
    "time series": series,
}


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 64
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


@pytest.mark.parametrize("case", mostly_slow(CASES, fast=["random walk"]))
def test_a_run_draws_what_stock_draws(strategy, case):
    wanted = tf.nest.flatten(tf.function(case)())
    found = tf.nest.flatten(strategy.run(tf.function(case)))
    assert len(found) == len(wanted)
    for ours, stock in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, stock, rtol=2e-4, atol=1e-5)


@pytest.mark.slow
def test_a_variational_posterior_is_fitted_as_stock_fits_it(strategy):
    def fitted(run, scope):
        with scope:
            tf.random.set_seed(3)
            posterior = tfp.experimental.vi.build_factored_surrogate_posterior(
                event_shape=[2], seed=SEED
            )

        @tf.function
        def step(index):
            with tf.GradientTape() as tape:
                loss = tfp.vi.monte_carlo_variational_loss(
                    log_density,
                    posterior,
                    sample_size=4,
                    seed=tf.stack([index, 7]),
                )
            for weight, slope in zip(
                posterior.trainable_variables,
                tape.gradient(loss, posterior.trainable_variables),
                strict=True,
            ):
                weight.assign_sub(0.05 * slope)
            return loss

        return [float(run(step, tf.constant(index))) for index in range(5)]

    ours = fitted(lambda step, index: strategy.run(step, args=(index,)), strategy.scope())
    with tf.device("/cpu:0"):
        stock = fitted(lambda step, index: step(index), tf.name_scope("stock"))
    np.testing.assert_allclose(ours, stock, rtol=1e-4)
