"""The options of `ipu-tf estimate` that change how a model trains, against the same in Python."""

import json

import keras
import pytest

import ipu_tf
from ipu_tf import cli
from tests import sample_models
from tests.profile.programs import device_program

MODELS = "tests.sample_models"


def figures(capsys, *words):
    assert cli.main(["estimate", f"{MODELS}:mlp", "--batch-size", "8", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    return found["figures"][0], found["notes"]


def expected(model=sample_models.mlp, ipus=1):
    config = ipu_tf.IPUConfig()
    config.auto_select_ipus = ipus
    (program,) = ipu_tf.estimate(model, batch_size=8, config=config).programs
    return program.device


@pytest.mark.slow
def test_precision_is_the_policy_of_the_layers(capsys):
    before = keras.config.dtype_policy()
    half, _ = figures(capsys, "--precision", "float16")
    assert keras.config.dtype_policy() == before
    keras.config.set_dtype_policy("float16")
    try:
        assert half["cycles"] == expected().cycles
    finally:
        keras.config.set_dtype_policy(before)
    assert half["cycles"] != expected().cycles


def test_replicas_are_ipus(capsys):
    found, _ = figures(capsys, "--replicas", "4")
    assert (found["replicas"], found["system"]) == (4, "bow-2000")
    assert found["cycles"] == expected(ipus=4).cycles


@pytest.mark.slow
def test_accumulation_has_micro_batches(capsys):
    def accumulating():
        model = sample_models.mlp()
        model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=3)
        return model

    found, _ = figures(capsys, "--accumulation", "3")
    assert found["micro_batches"] == 3
    assert found["cycles"] == expected(accumulating).cycles


@pytest.mark.slow
def test_an_optimizer_replaces_the_assumed_one(capsys):
    def with_adam():
        model = sample_models.mlp()
        model.compile("adam", "sparse_categorical_crossentropy")
        return model

    found, notes = figures(capsys, "--optimizer", "adam")
    assert found["cycles"] == expected(with_adam).cycles != expected().cycles
    assert notes == ["model 'mlp' is not compiled: sparse_categorical_crossentropy is assumed"]


@pytest.mark.slow
def test_stages_and_recomputation_make_a_pipeline(capsys):
    found, _ = figures(capsys, "--stages", "2", "--accumulation", "4", "--recompute")
    assert len(found["stages"]) == 2
    assert (found["micro_batches"], found["recompute"], found["replicas"]) == (4, True, 1)
    found, _ = figures(capsys, "--stages", "2", "--accumulation", "4", "--ipus", "4")
    assert (len(found["stages"]), found["replicas"]) == (2, 2)


@pytest.mark.slow
def test_recomputation_on_one_ipu_is_as_far_as_asked_for(capsys):
    kept, _ = figures(capsys)
    again, _ = figures(capsys, "--recompute", "auto")
    assert kept["cycles"] == again["cycles"]  # It fits as it is.
    again, _ = figures(capsys, "--recompute")
    assert again["recompute"]
    assert cli.main(["estimate", f"{MODELS}:mlp", "--recompute", "hidden,nope"]) == 2
    assert "error: Activations cannot be kept after 'nope'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--replicas", "0"], "--replicas must be at least 1. Received: 0."),
        (["--accumulation", "-1"], "--accumulation must be at least 1. Received: -1."),
        (["--stages", "0"], "--stages must be at least 1. Received: 0."),
        (["--inference", "--recompute"], "--recompute is about training: leave out --inference."),
        (["--inference", "--stages", "2"], "--stages is about training: leave out --inference."),
        (["--inference", "--optimizer", "sgd"], "--optimizer is about training: leave out --inf"),
        (["--replicas", "2", "--ipus", "4"], "2 replicas of 1 stages need 2 IPUs: leave out --ipu"),
        (["--optimizer", "sdg"], "--optimizer takes the name of a Keras optimizer, such as sgd, "),
        (["--optimizer", "sdg"], "Received: 'sdg'."),
    ],
)
def test_bad_options_are_one_line(words, message, capsys):
    assert cli.main(["estimate", f"{MODELS}:mlp", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def test_a_model_that_is_made_cannot_be_made_otherwise(capsys):
    assert cli.main(["estimate", f"{MODELS}:MODEL", "--precision", "float16"]) == 2
    assert capsys.readouterr().err == (
        "error: --precision changes how the model is made: name a function that makes it. "
        "Received: the model 'mlp'.\n"
    )


def test_the_parser_refuses_other_precisions(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["estimate", f"{MODELS}:mlp", "--precision", "int8"])
    assert exit_.value.code == 2
    assert "argument --precision: invalid choice: 'int8'" in capsys.readouterr().err


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_pipeline_that_does_not_fit_has_the_report_of_the_closest(
    is_compiled, monkeypatch, capsys
):
    def refuse(*args, **kwargs):
        error = ipu_tf.IPUOutOfMemoryError("IPU 0 is too small", program="p", chip="bow")
        error.compiled = device_program() if is_compiled else None
        raise error

    monkeypatch.setattr(ipu_tf.keras, "auto_pipeline", refuse)
    code = cli.main(["estimate", f"{MODELS}:mlp", "--stages", "2"])
    printed = capsys.readouterr()
    if is_compiled:
        assert code == 0
        assert "Program 'mlp.train_step'" in printed.out
    else:
        assert (code, printed.err) == (2, "error: IPU 0 is too small\n")
