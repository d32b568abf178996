"""Hamiltonian Monte Carlo with the step sizes of TensorFlow Probability for TensorFlow 1."""

import sys
import warnings

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.compat.tensorflow1.probability import kernels_may_update_step_sizes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

    STOCK = tfp.mcmc.HamiltonianMonteCarlo

pytestmark = pytest.mark.filterwarnings("ignore")


def density(z):
    return -0.5 * tf.reduce_sum(z**2, -1)


def test_the_step_size_follows_the_acceptance_of_the_first_steps():
    step_size, counter = tf.Variable(3.0), tf.Variable(-1)
    policy = tfp.mcmc.make_simple_step_size_update_policy(
        num_adaptation_steps=4,
        target_rate=0.9,
        decrement_multiplier=0.5,
        increment_multiplier=0.25,
        step_counter=counter,
    )
    with kernels_may_update_step_sizes():
        kernel = tfp.mcmc.HamiltonianMonteCarlo(
            density, step_size, num_leapfrog_steps=1, step_size_update_fn=policy
        )
    assert isinstance(kernel, STOCK)
    assert kernel.copy().step_size_update_fn is policy
    state = tf.zeros([2])
    results = kernel.bootstrap_results(state)
    assert results.extra.step_size_assign == 3.0
    wanted, changes = 3.0, set()
    for step in range(6):
        state, results = kernel.one_step(state, results, seed=[0, step])
        if step < 4:
            rises = min(0.0, float(results.log_accept_ratio)) >= np.log(0.9)
            changes.add(rises)
            wanted *= 1.25 if rises else 1 - 0.5 / 1.5
        np.testing.assert_allclose(results.extra.step_size_assign, wanted, rtol=1e-6)
        np.testing.assert_allclose(step_size, wanted, rtol=1e-6)
    assert changes == {True, False}


def test_other_kernels_and_later_scripts_have_the_stock_kernel():
    with kernels_may_update_step_sizes():
        kernel = tfp.mcmc.HamiltonianMonteCarlo(density, 0.1, num_leapfrog_steps=1)
        state = tf.ones([2])
        results = kernel.one_step(state, kernel.bootstrap_results(state), seed=[0, 1])[1]
        assert results.extra == []
    assert tfp.mcmc.HamiltonianMonteCarlo is STOCK
    with pytest.raises(TypeError, match="step_size_update_fn"):
        STOCK(density, 0.1, num_leapfrog_steps=1, step_size_update_fn=None)


def test_a_module_that_is_imported_later_has_the_kernel(monkeypatch):
    name = "tensorflow_probability.python.mcmc"
    monkeypatch.delitem(sys.modules, name)
    parent = sys.modules["tensorflow_probability.python"]
    monkeypatch.setattr(parent, "mcmc", tfp.mcmc)  # The import sets it anew.
    with kernels_may_update_step_sizes():
        __import__(name)
        module = sys.modules[name]
        assert "step_size_update_fn" in module.HamiltonianMonteCarlo(density, 0.1, 1).parameters
    assert module.HamiltonianMonteCarlo is STOCK
