"""Whole programs: every instruction of real training steps has a cost."""

import dataclasses

import pytest

from ipu_tf.compiler.assembly import build_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.lowering.contractions.contraction_plan import plan_for
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.machine.target import CHIPS
from tests.compiler import modules
from tests.compiler.lowering.programs import context_of
from tests.grids import mostly_slow


def compiled(module):
    return build_program(
        simplify(module),
        options=CompilerOptions(out_of_memory="report"),
        plans={},
    )


# The pinned figures have the others.


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", mostly_slow(modules.NAMES, modules.FAST))
def test_a_training_step_has_a_cost(name):
    program = compiled(modules.module(name))
    assert program.complete
    assert program.cycles > 0


@pytest.mark.parametrize(
    "name", mostly_slow(["cifar10", "resnet", "mixed_precision"], fast=["cifar10"])
)
def test_contractions_are_those_of_the_tile_ops(name):
    traced = modules.step_of(name)
    module = simplify(traced.module)
    ops = {op.name: (op.shape, op.plan) for op in traced.program.tile_ops}
    unplanned = context_of(module, tiles=CHIPS["bow"].tiles)
    found = {}
    for computation in module.computations.values():
        alone = dataclasses.replace(unplanned, instructions=computation.by_name())
        for instruction in computation:
            if instruction.opcode in ("dot", "convolution"):
                with_ops = dataclasses.replace(alone, plans=ops)
                assert plan_for(instruction, with_ops) == ops[instruction.op_name]
                found[instruction.op_name] = plan_for(instruction, alone)[0]
    assert found == {name: shape for name, (shape, _) in ops.items()}


@pytest.mark.slow
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
