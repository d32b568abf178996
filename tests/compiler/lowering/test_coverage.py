"""Whole programs: every instruction of real training steps has a cost."""

import pytest

from ipu_tf.compiler.compile import build_program
from ipu_tf.compiler.options import CompilerOptions
from ipu_tf.compiler.passes.pipeline import simplify
from ipu_tf.compiler.rules import RULES
from tests.compiler import modules


def compiled(module):
    return build_program(
        simplify(module),
        options=CompilerOptions(out_of_memory="report"),
        plans={},
        samples_per_run=4,
        rules=RULES,
    )


@pytest.mark.parametrize("name", modules.NAMES)
def test_a_training_step_has_a_cost(name):
    program = compiled(modules.module(name))
    assert program.complete
    assert program.cycles > 0


@pytest.mark.parametrize("sampler", ["HamiltonianMonteCarlo", "NoUTurnSampler"])
def test_a_sampler_has_a_cost(sampler):
    pytest.importorskip("tf_keras")
    tf = pytest.importorskip("tensorflow")
    tfp = pytest.importorskip("tensorflow_probability")
    settings = {
        "HamiltonianMonteCarlo": {"num_leapfrog_steps": 3},
        "NoUTurnSampler": {"max_tree_depth": 3},
    }

    def log_density(x):
        return -tf.reduce_sum(x**2, -1) / 2

    def sample(x):
        kernel = getattr(tfp.mcmc, sampler)(log_density, step_size=0.1, **settings[sampler])
        return tfp.mcmc.sample_chain(
            4, current_state=x, kernel=kernel, trace_fn=None, seed=tf.constant([1, 2])
        )

    program = compiled(modules.traced(sample, tf.zeros((3, 5))).module)
    assert program.complete
    assert program.cycles > 0
