"""Densities without a value, without gradients or of changing shapes: errors or diagnostics."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, UncompilableProgram, config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

    from ipu_tf import mcmc

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _scope():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.simulator.engine = "graph"
    cfg.configure_ipu_system()
    with IPUStrategy().scope():
        yield
    config.reset_ipu_configuration()


def sample(density, start, step_size=0.4, results=12):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(
        density, step_size=np.float32(step_size), num_leapfrog_steps=3
    )
    return mcmc.sample_chain(
        results, start, kernel=kernel, trace_fn=mcmc.statistics, seed=1, block_size=results
    )


def beta(z):
    """A density on (0, 1) whose logarithm is NaN elsewhere."""
    return tf.reduce_sum(tf.math.log(z) + tf.math.log(1.0 - z), -1)


def test_a_start_without_a_density_is_refused_with_its_chains():
    start = np.array([[0.5], [-1.0], [0.5], [2.0]], "float32")
    with pytest.raises(
        ValueError, match=r"log-density of `current_state` is NaN in chains 1, 3: a sampler acc.*"
    ):
        sample(beta, start)
    with pytest.raises(ValueError, match=r"`current_state` is NaN: a sampler"):
        sample(beta, start[3])


@pytest.mark.slow
def test_steps_to_where_the_density_is_nan_are_rejected_and_marked():
    states, trace = sample(beta, np.full([8, 1], 0.5, "float32"))
    assert ((states > 0) & (states < 1)).all()
    assert trace["accepted"].any()
    assert trace["diverging"].any()
    assert not (trace["accepted"] & trace["diverging"]).any()


@pytest.mark.slow
def test_chains_that_diverge_stay_where_they_are_and_say_so():
    start = np.ones([2, 3], "float32")
    states, trace = sample(lambda z: -0.5 * tf.reduce_sum(z**2, -1), start, step_size=1e3)
    np.testing.assert_array_equal(states, np.broadcast_to(start, states.shape))
    assert trace["diverging"].all()
    assert not trace["acceptance_rate"].any()


def test_shapes_that_depend_on_data_are_named_with_a_way_out():
    with pytest.raises(UncompilableProgram, match=r"(?s)Shapes are static .*mask.*tf.where"):
        sample(lambda z: -tf.reduce_sum(tf.boolean_mask(z, z > 0) ** 2), np.ones([3], "float32"))


def test_64_bits_are_refused():
    with pytest.raises(TypeError, match=r"float64 .*tf.cast it to tf.float32"):
        sample(lambda z: -tf.reduce_sum(tf.cast(z, tf.float64) ** 2), np.ones([3], "float32"))
