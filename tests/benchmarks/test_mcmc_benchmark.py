"""The benchmark of samplers: all sides draw alike, and ours is not slower."""

import argparse
import sys
import warnings

import numpy as np
import pytest

from benchmarks.__main__ import parse

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from benchmarks import mcmc


@pytest.mark.slow
# Where JAX is installed, TFP's backend for it uses what some versions of JAX deprecate.
@pytest.mark.filterwarnings(
    r"ignore:jax\.interpreters:DeprecationWarning", "ignore:shape requires:DeprecationWarning"
)
def test_ours_draws_what_a_graph_draws_and_is_not_slower(monkeypatch):
    monkeypatch.setattr(mcmc, "CHAINS", (1, 2))
    result = mcmc.run(argparse.Namespace(rounds=3, samples=3))
    for case in result["chains"].values():
        assert case["largest_difference_to_graph"] < 1e-3
        assert case["ratio"]["of_fastest_rounds"] > mcmc.WANTED


def test_the_density_of_many_networks_is_that_of_each():
    weights = 0.1 * np.random.default_rng(0).normal(size=(3, sum(mcmc.SIZES))).astype("float32")
    each = [mcmc.log_density(1)(one) for one in weights]
    np.testing.assert_allclose(mcmc.log_density(3)(weights), each, rtol=1e-4)


def test_samplers_of_missing_packages_are_named(monkeypatch):
    for name in ("jax", "blackjax", "numpyro"):
        monkeypatch.setitem(sys.modules, name, None)
    found, absent = mcmc.jax_sides(1, 2)
    assert not found
    assert set(absent) == {"tfp_on_jax", "blackjax", "numpyro"}
    assert "ModuleNotFoundError" in absent["blackjax"]
    assert mcmc.jax_samplers.versions(found) == {}


def test_a_round_has_samples(capsys):
    with pytest.raises(SystemExit):
        parse(["mcmc", "--samples", "0"])
    assert "--samples must be at least 1" in capsys.readouterr().err
