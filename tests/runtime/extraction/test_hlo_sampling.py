"""The HLO of TensorFlow Probability's samplers."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.compiler.hlo import verify
from ipu_tf.compiler.passes.simplify import simplify
from tests.compiler.modules import traced

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    tfp = pytest.importorskip(
        "tensorflow_probability", reason="needs the extra `probability`", exc_type=ImportError
    )

X = np.ones((4, 8), "float32")


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


def log_density(z):
    return -0.5 * tf.reduce_sum((z - 1.0) ** 2, -1)


def kernels():
    return {
        "hmc": tfp.mcmc.HamiltonianMonteCarlo(log_density, step_size=0.1, num_leapfrog_steps=3),
        "nuts": tfp.mcmc.NoUTurnSampler(log_density, step_size=0.1, max_tree_depth=4),
    }


def sampled(kernel, **options):
    def fn(x):
        return tfp.mcmc.sample_chain(
            num_results=5, current_state=x, kernel=kernel, trace_fn=None, seed=[1, 2], **options
        )

    module = simplify(traced(fn, X).module)
    verify(module)
    return [i for computation in module.computations.values() for i in computation]


@pytest.mark.parametrize("kernel", ["hmc", "nuts"])
@pytest.mark.slow
def test_chains(kernel):
    found = sampled(kernels()[kernel])
    opcodes = {i.opcode for i in found}
    assert {"while", "rng-bit-generator", "fusion"} <= opcodes
    assert "xor" not in {i.opcode for i in found if i.op_type == "StatelessRandomGetKeyCounter"}
    bounds = [i.attributes for i in found if i.opcode == "while"]
    assert any(5 in bound.values() for bound in bounds)


def trip_counts(kernel, **options):
    counted = ("trip_count", "mean_trip_count")
    return [
        next((i.attributes[key] for key in counted if key in i.attributes), None)
        for i in sampled(kernel, **options)
        if i.opcode == "while"
    ]


def test_all_loops_of_hmc_are_counted():
    """The chain of 5, the steps to the next result, and the leapfrog steps."""
    assert set(trip_counts(kernels()["hmc"])) == {1, 3, 5}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"num_burnin_steps": 7}, 8 + 4),
        ({"num_burnin_steps": 7, "num_steps_between_results": 1}, 8 + 4 * 2),
    ],
)
@pytest.mark.slow
def test_steps_without_results_are_counted(options, steps):
    assert set(trip_counts(kernels()["hmc"], **options)) == {3, 5, (steps, 5)}


@pytest.mark.slow
def test_slice_samplers_draw_what_they_draw_without_a_strategy(strategy):
    """They compute the widths of their steps in float64."""

    @tf.function
    def sample(x):
        kernel = tfp.mcmc.SliceSampler(log_density, step_size=1.0, max_doublings=3)
        return kernel.one_step(x, kernel.bootstrap_results(x), seed=[1, 2])[0]

    ours = strategy.run(sample, (tf.constant(X),))
    np.testing.assert_allclose(ours, sample(tf.constant(X)), rtol=1e-5)
    (program,) = strategy.report().programs
    assert "float64 values arise in" in " ".join(program.device.notes)
