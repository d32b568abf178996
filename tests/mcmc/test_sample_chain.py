"""Chains of TensorFlow Probability on replicas, in blocks, resumed after a kill."""

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

    from ipu_tf import mcmc
    from ipu_tf.mcmc import chain_files, chain_progress

STATE = np.array([[0.5, -0.5], [1.0, 0.0]], "float32")
OPTIONS = {"num_results": 7, "num_burnin_steps": 2, "num_steps_between_results": 1, "seed": [0, 5]}


def log_density(z):
    return -0.5 * tf.reduce_sum((z - 1.0) ** 2, -1)


def hmc(steps=3):
    return tfp.mcmc.HamiltonianMonteCarlo(log_density, step_size=0.7, num_leapfrog_steps=steps)


def random_walk():
    return tfp.mcmc.RandomWalkMetropolis(log_density)


def accepted(state, results):
    return results.is_accepted


@pytest.fixture
def scope():
    def configured(ipus=1, **simulator):
        cfg = IPUConfig()
        cfg.auto_select_ipus = ipus
        cfg.ipu_model.tiles_per_ipu = 16
        cfg.simulator.engine = "graph"  # Compiling by XLA takes longer than these runs.
        for name, value in simulator.items():
            setattr(cfg.simulator, name, value)
        cfg.configure_ipu_system()
        return IPUStrategy().scope()

    yield configured
    config.reset_ipu_configuration()


def stock(kernel, *, jit_compile=True, **options):
    return tf.function(
        lambda: tfp.mcmc.sample_chain(
            current_state=STATE, kernel=kernel, trace_fn=accepted, **{**OPTIONS, **options}
        ),
        jit_compile=jit_compile,
    )()


@pytest.mark.parametrize(
    ("kernel", "engine"),
    [
        (random_walk, "graph"),
        pytest.param(hmc, "graph", marks=pytest.mark.slow),
        pytest.param(hmc, "auto", marks=pytest.mark.slow),
    ],
)
def test_a_replica_draws_what_stock_draws_whatever_the_blocks(scope, kernel, engine):
    with scope(engine=engine):
        found = mcmc.sample_chain(
            current_state=STATE, kernel=kernel(), trace_fn=accepted, block_size=3, **OPTIONS
        )
    wanted = stock(kernel(), jit_compile=engine != "graph")
    np.testing.assert_allclose(found.all_states, wanted.all_states, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found.trace, wanted.trace)


@pytest.mark.slow
def test_replicas_are_independent_and_reproducible(scope):
    with scope(ipus=2):
        runs = [
            mcmc.sample_chain(
                current_state=STATE, kernel=hmc(), trace_fn=accepted, num_replicas=2, **OPTIONS
            )
            for _ in range(2)
        ]
    states, trace = runs[0]
    assert states.shape == (7, 2, 2, 2)
    assert trace.shape == (7, 2, 2)
    np.testing.assert_array_equal(states, runs[1].all_states)
    assert not np.isclose(states[:, 0], states[:, 1]).any()
    np.testing.assert_allclose(
        states[:, 0], stock(hmc(), jit_compile=False).all_states, rtol=1e-4, atol=1e-6
    )
    assert tfp.mcmc.potential_scale_reduction(states).shape == (2, 2)


@pytest.mark.slow
def test_a_run_goes_on_from_its_files_with_equal_bits(scope, tmp_path, monkeypatch):
    options = {**OPTIONS, "current_state": STATE, "trace_fn": accepted, "block_size": 2}
    with scope():
        whole = mcmc.sample_chain(kernel=hmc(), **options)
        written = chain_files.ChainFiles.write_block

        def dies(self, index, draws):
            if index == 2:
                raise KeyboardInterrupt
            written(self, index, draws)

        with monkeypatch.context() as patch:
            patch.setattr(chain_files.ChainFiles, "write_block", dies)
            with pytest.raises(KeyboardInterrupt):
                mcmc.sample_chain(kernel=hmc(), directory=tmp_path, **options)
        for _ in range(2):  # The second has nothing left to run.
            resumed = mcmc.sample_chain(
                kernel=hmc(), directory=tmp_path, return_final_kernel_results=True, **options
            )
            np.testing.assert_array_equal(resumed.all_states, whole.all_states)
            np.testing.assert_array_equal(resumed.trace, whole.trace)
            assert resumed.final_kernel_results.is_accepted.shape == (2,)
        with pytest.raises(
            mcmc.ChainMismatch, match=r"num_results=7, and this run has num_results=9"
        ):
            mcmc.sample_chain(kernel=hmc(), directory=tmp_path, **{**options, "num_results": 9})
        with pytest.raises(
            mcmc.ChainMismatch,
            match=r"HamiltonianMonteCarlo.num_leapfrog_steps=3, and this run has .*=4",
        ):
            mcmc.sample_chain(kernel=hmc(steps=4), directory=tmp_path, **options)
        other = tfp.mcmc.HamiltonianMonteCarlo(
            lambda z: 2.0 * log_density(z), step_size=0.7, num_leapfrog_steps=3
        )
        with pytest.raises(mcmc.ChainMismatch, match=r"log-density of their last state was"):
            mcmc.sample_chain(kernel=other, directory=tmp_path, **options)
        with pytest.raises(mcmc.ChainMismatch, match=r"kernel=\['HamiltonianMonteCarlo'"):
            mcmc.sample_chain(kernel=random_walk(), directory=tmp_path, **options)


SCRIPT = """
    import sys, os, signal
    import numpy as np, tensorflow as tf, tensorflow_probability as tfp
    from ipu_tf import IPUConfig, IPUStrategy, mcmc
    from ipu_tf.mcmc import chain_files
    if sys.argv[2] == "kill":
        write = chain_files.ChainFiles.write_state
        def killed(self, blocks, state):
            write(self, blocks, state)
            if blocks == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        chain_files.ChainFiles.write_state = killed
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.simulator.engine = "graph"
    cfg.configure_ipu_system()
    kernel = tfp.mcmc.HamiltonianMonteCarlo(
        lambda z: -0.5 * tf.reduce_sum(z**2, -1), step_size=0.5, num_leapfrog_steps=2
    )
    with IPUStrategy().scope():
        states = mcmc.sample_chain(
            9, np.zeros((2, 3), "float32"), kernel=kernel, trace_fn=None, seed=3, block_size=2,
            directory=sys.argv[1],
        )
    np.save(sys.argv[1] + "/states.npy", states)
"""


@pytest.mark.slow
def test_a_killed_run_gives_the_draws_of_one_that_was_not(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def run(directory, mode):
        command = [sys.executable, script, tmp_path / directory, mode]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert run("killed", "kill") == -9
    assert not (tmp_path / "killed" / "states.npy").exists()
    assert run("killed", "resume") == 0
    assert run("whole", "run") == 0
    states = [np.load(tmp_path / name / "states.npy") for name in ("killed", "whole")]
    np.testing.assert_array_equal(*states)


def test_bad_arguments_are_named(scope):
    with pytest.raises(ValueError, match=r"in the scope of an IPUStrategy"):
        mcmc.sample_chain(3, STATE, kernel=hmc())
    with scope():
        with pytest.raises(ValueError, match=r"1 replicas.*num_replicas=4"):
            mcmc.sample_chain(3, STATE, kernel=hmc(), num_replicas=4)
        with pytest.raises(ValueError, match=r"num_results=0"):
            mcmc.sample_chain(0, STATE, kernel=hmc())
        with pytest.raises(ValueError, match=r"kernel=None"):
            mcmc.sample_chain(3, STATE)


def test_figures_of_kernels_within_kernels():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(hmc(), num_adaptation_steps=3)
        results = kernel.bootstrap_results(tf.constant(STATE))
    assert chain_progress.figures(results) == "accepted 100%, step size 0.7"
    assert chain_progress.figures(()) == ""


def test_a_bar_shows_results_and_figures(capsys):
    with (
        warnings.catch_warnings(action="ignore"),
        chain_progress.progress_bar(10, 4, is_shown=True) as advance,
    ):
        kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(hmc(), num_adaptation_steps=3)
        advance(6, kernel.bootstrap_results(tf.constant(STATE)))
    text = capsys.readouterr().err
    assert "10/10" in text
    assert "step size 0.7" in text
