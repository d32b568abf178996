"""Calls alike run the programs of the first; others compile their own."""

import gc
import warnings
import weakref

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

    from ipu_tf import mcmc
    from ipu_tf.mcmc.block_sampler import BlockSampler
    from ipu_tf.mcmc.samplers import sampler_of

pytestmark = pytest.mark.filterwarnings("ignore")

STATE = np.ones(2, "float32")


def log_density(z):
    return -tf.reduce_sum(z**2, -1)


def walk(density=log_density):
    return tfp.mcmc.RandomWalkMetropolis(density)


def configure(tiles=16):
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = tiles
    cfg.simulator.engine = "graph"
    cfg.configure_ipu_system()


@pytest.fixture
def strategy():
    configure()
    yield IPUStrategy()
    config.reset_ipu_configuration()


def sampler(strategy, **changes):
    call = {
        "kernel": walk(),
        "strategy": strategy,
        "trace_fn": lambda state, results: results.is_accepted,
        "start": (STATE, None),
        "parallel_iterations": 10,
        "name": None,
    }
    return sampler_of(**call | changes)


def test_calls_alike_share_a_sampler_and_others_do_not(strategy):
    found = sampler(strategy)
    assert sampler(strategy) is found
    assert sampler(strategy, start=(2 * STATE, None)) is found
    other = IPUStrategy()
    for changes in (
        {"kernel": walk(lambda z: 2.0 * log_density(z))},
        {"kernel": tfp.mcmc.MetropolisAdjustedLangevinAlgorithm(log_density, 0.1)},
        {"strategy": other},
        {"trace_fn": None},
        {"trace_fn": lambda state, results: state},
        {"start": ([STATE], None)},
        {"start": ((STATE,), None)},
        {"start": (STATE.astype("float16"), None)},
        {"start": (STATE[:1], None)},
        {"start": (STATE, STATE)},
        {"parallel_iterations": 1},
        {"name": "chains"},
    ):
        assert sampler(**{"strategy": strategy} | changes) is not found, changes
    configure(tiles=32)
    assert sampler(strategy) is not found
    configure()
    assert sampler(strategy, kernel=walk(Unseen().log_density)) is not sampler(
        strategy, kernel=walk(Unseen().log_density)
    )


class Unseen:
    def log_density(self, z):
        return log_density(z)


def test_a_strategy_keeps_few_samplers_and_they_end_with_it(strategy):
    first = weakref.ref(sampler(strategy))
    last = weakref.ref(sampler(strategy, name="0"))
    for number in range(8):
        sampler(strategy, name=str(number))
    gc.collect()
    assert first() is None
    assert last() is not None
    del strategy


def test_later_programs_are_of_the_functions_of_their_call(strategy):
    scale = 1

    def density(z):
        return scale * log_density(z)

    found = sampler(strategy, kernel=walk(density))
    scale = 2
    kernel = walk(alike(1))
    assert sampler(strategy, kernel=kernel) is not found  # Another function's code.
    first = sampler(strategy, kernel=walk(alike(3)))
    kernel = walk(alike(3))
    second = sampler(strategy, kernel=kernel)
    assert first is second
    assert second._kernel._kernel is kernel


def alike(scale):
    return lambda z: scale * log_density(z)


@pytest.mark.slow
def test_a_second_call_compiles_nothing_unless_something_changed(strategy, monkeypatch):
    compiled, program = [], BlockSampler._program
    monkeypatch.setattr(
        BlockSampler, "_program", lambda *words: compiled.append(words) or program(*words)
    )

    def draws(target, name="z", **options):
        kernel = walk(lambda z: -tf.reduce_sum((z - target) ** 2))
        with strategy.scope():
            states, trace = mcmc.sample_chain(
                4,
                **{"current_state": STATE} | options,
                kernel=kernel,
                trace_fn=lambda state, results: {name: results.is_accepted},
                seed=1,
            )
        assert list(trace) == [name]
        return states

    first = draws(0.0)
    np.testing.assert_array_equal(draws(0.0), first)
    assert len(compiled) == 1
    far = np.full(2, 50.0, "float32")
    assert (draws(far) != first).any()
    far[:] = 0.0  # The array that the second call read.
    np.testing.assert_array_equal(draws(far), first)
    assert len(compiled) == 3
    draws(0.0, name="accepted")
    assert isinstance(draws(0.0, current_state=[STATE]), list)
    assert len(compiled) == 5
    draws(0.0)
    assert len(compiled) == 5
