"""Scripts written as the vendor's guides write them run as they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def run(script, *words, max_steps=None, tf1=False, cwd=None):
    """Runs a script on Keras 2 with generated data in its own process; returns what it prints.

    Args:
        script: Its file.
        words: Its command line.
        max_steps: The most steps of each loop; None for no limit.
        tf1: Whether it is written for TensorFlow 1.
        cwd: The folder that it runs in; None for the present one.
    """
    limit = [] if max_steps is None else ["--max-steps", str(max_steps)]
    options = ["--offline", *limit, *(["--tf1"] if tf1 else [])]
    command = [sys.executable, "-m", "ipu_tf", "run", *options, str(FOLDER / script), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=400, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_cifar10_network_learns():
    printed = run("cifar10.py", "--epochs", "3", "--samples", "6400")
    assert figure("accuracy", printed) > 0.2


def figure(name, printed):
    """The figure that a script prints behind a name."""
    return float(re.search(rf"^{name} (.*)$", printed, re.MULTILINE)[1])


@pytest.mark.slow
def test_handwritten_digits_are_learned_in_few_steps():
    printed = run("mnist.py", max_steps=100)
    assert figure("epochs", printed) == 1
    assert figure("accuracy", printed) > 0.9
    assert "predictions 3200 10" in printed


@pytest.mark.slow
def test_the_layers_of_the_addons_learn_in_a_pipeline():
    printed = run("imdb.py", "--samples", "3200", max_steps=75)
    assert "\n72/72" in printed  # Whole updates of four micro-batches.
    assert figure("accuracy", printed) > 0.6


@pytest.mark.slow
def test_an_encoder_and_a_decoder_learn():
    printed = run("encoder_decoder.py", "--samples", "2560", "--epochs", "20")
    assert figure("accuracy", printed) > 0.55
    assert "question " in printed


@pytest.mark.slow
def test_an_exported_model_is_served():
    printed = run("served_model.py", "--samples", "6400")
    assert figure("accuracy", printed) > 0.6
    assert figure("equal", printed) == 1
    assert figure("stock", printed) == 1
    assert 0 < figure("brightness", printed) < 1


@pytest.mark.slow
def test_operations_work_in_graphs_of_tensorflow_1():
    printed = run("graph_ops.py")
    assert printed.count("equal ") == 16


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--schedule", "Interleaved", "--recompute"),
        ("--schedule", "Sequential", "--replicas", "2"),
    ],
)
def test_a_pipeline_of_functions_learns_digits(words):
    printed = run("pipelined_digits.py", *words)
    assert figure("accuracy", printed) > 0.9


@pytest.mark.slow
def test_a_pipeline_of_keras_layers_learns_digits():
    assert figure("accuracy", run("pipelined_keras.py")) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--configure-last",)])
def test_a_pipeline_of_a_graph_learns_in_a_session(words):
    printed = run("pipelined_graph.py", *words)
    assert figure("loss", printed) < 0.2


@pytest.mark.slow
def test_a_graph_of_tensorflow_1_learns_with_an_optimizer_of_its_own(tmp_path):
    printed = run("tensorflow_1.py", tf1=True, cwd=tmp_path)
    first, second = (float(loss) for loss in re.findall(r"^loss (.*)$", printed, re.MULTILINE))
    assert second < first / 2
    assert "moving True\nmodes train" in printed


@pytest.mark.slow
@pytest.mark.parametrize("ipus", [1, 4])
def test_a_session_samples_with_a_chain_on_each_ipu(ipus):
    printed = run("graph_sampling.py", str(ipus), tf1=True)
    assert f"states ({ipus}, 40, 15)\nmoved True\napart {ipus}" in printed
    low, high = map(float, re.search(r"^step size (.*) (.*)$", printed, re.MULTILINE).groups())
    assert 0.01 < low <= high < 0.01 * 1.1**20.5


@pytest.mark.slow
def test_an_on_device_loop_with_feeds_learns():
    printed = run("device_loop.py")
    assert printed.count("steps 64") == 2
    assert "improved True" in printed


@pytest.mark.slow
def test_networks_with_several_datasets_in_one_infeed_train_against_each_other():
    printed = run("adversarial.py")
    assert "steps 200 200" in printed
    assert "moved True" in printed


@pytest.mark.slow
def test_replicas_sample_with_feeds_in_nested_loops():
    printed = run("replicated_sampling.py")
    assert "replicas 4\nsamples (5, 4, 2) proposals (15, 4, 2)" in printed
    assert "index [0, 1, 2, 3]\nmeans agree True\nlast agrees True" in printed
