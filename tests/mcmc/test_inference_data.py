"""Chains as ArviZ holds them."""

import importlib
import sys
import warnings

import numpy as np
import pytest
import tensorflow as tf

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

    from ipu_tf import mcmc

pytestmark = pytest.mark.filterwarnings("ignore")

STATES = np.random.default_rng(0).normal(size=(5, 2, 3, 4)).astype("float32")
"""[results, replicas, chains of a replica, state]."""
STATISTICS = {"lp": -(STATES**2).sum(-1), "accepted": STATES[..., 0] > 0}


@pytest.fixture(params=["arviz", "arviz_base"])
def arviz(request, monkeypatch):
    """The installed ArviZ, and the `from_dict` of ArviZ 1.0."""
    module = importlib.import_module(request.param)
    monkeypatch.setitem(sys.modules, "arviz", module)
    return module


def test_replicas_and_their_chains_become_chains(arviz):
    found = mcmc.to_arviz(STATES, STATISTICS, chain_ndims=2)
    wanted = "InferenceData" if hasattr(arviz, "InferenceData") else "DataTree"
    assert type(found).__name__ == wanted
    assert found["posterior"]["x"].dims[:2] == ("chain", "draw")
    for chain in range(6):
        replica, own = divmod(chain, 3)
        np.testing.assert_array_equal(found["posterior"]["x"][chain], STATES[:, replica, own])
        for name, values in STATISTICS.items():
            np.testing.assert_array_equal(
                found["sample_stats"][name][chain], values[:, replica, own]
            )


def test_parts_of_the_state_are_named(arviz):
    parts = [STATES, STATES[..., 0]]
    for states, names in (
        (parts, {"x_0", "x_1"}),
        ({"slope": parts[0], "noise": parts[1]}, {"slope", "noise"}),
        (tfp.mcmc.StatesAndTrace(*parts), {"all_states", "trace"}),
    ):
        assert set(mcmc.to_arviz(states)["posterior"].data_vars) == names
    alone = mcmc.to_arviz(STATES[:, 0, 0, 0], chain_ndims=0)["posterior"]["x"]
    assert alone.shape == (1, 5)


def test_chains_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"'x' needs an axis of results and 2 of chains.*\(5, 2\)"):
        mcmc.to_arviz(STATES[:, :, 0, 0], chain_ndims=2)
    with pytest.raises(
        ValueError,
        match=r"'posterior.x' has 6 chains of 5 draws and 'sample_stats.lp' has 6 chains of 4",
    ):
        mcmc.to_arviz(STATES, {"lp": STATISTICS["lp"][1:]}, chain_ndims=2)


def test_a_missing_arviz_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs ArviZ. Install it: pip install arviz"):
        mcmc.to_arviz(STATES)


def density(z):
    return -0.5 * tf.reduce_sum(z**2, -1)


def step(kernel):
    state = tf.ones([3, 2])
    results = kernel.bootstrap_results(state)
    return kernel.one_step(state, results, seed=tf.constant([1, 2]))


def test_statistics_of_a_sampler_have_the_names_of_arviz():
    kernel = tfp.mcmc.NoUTurnSampler(density, step_size=0.5, max_tree_depth=2)
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(kernel, num_adaptation_steps=2)
    state, results = step(kernel)
    found = mcmc.statistics(state, results)
    names = {"lp", "acceptance_rate", "accepted", "step_size", "n_steps", "energy", "diverging"}
    assert set(found) == names | {"reached_max_treedepth"}
    assert {tuple(value.shape) for value in found.values()} == {(3,)}
    np.testing.assert_allclose(found["lp"], density(state), rtol=1e-5)
    np.testing.assert_allclose(found["step_size"], results.new_step_size)


@pytest.mark.parametrize(("step_size", "diverges"), [(0.5, False), (1e3, True), (1e30, True)])
def test_a_trajectory_that_leaves_its_energy_diverged(step_size, diverges):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(density, step_size=step_size, num_leapfrog_steps=3)
    found = mcmc.statistics(*step(kernel))
    np.testing.assert_array_equal(found["diverging"], [diverges] * 3)
    np.testing.assert_array_equal(found["accepted"], [not diverges] * 3)
    assert "step_size" not in found  # This kernel does not keep it in its results.


def test_a_walk_has_no_trajectory_to_diverge():
    assert set(mcmc.statistics(*step(tfp.mcmc.RandomWalkMetropolis(density)))) == {
        "lp",
        "accepted",
        "acceptance_rate",
    }
