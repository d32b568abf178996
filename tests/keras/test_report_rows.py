"""The names of a step's work in reports: layers, operations of Keras, loss, metrics, optimizer."""

import keras
import pytest

import ipu_tf
from ipu_tf.profile.figures import program_figures as figures


def build():
    inputs = keras.Input((8, 16))
    hidden = keras.layers.Dense(16, name="first")(inputs)
    hidden = keras.layers.LayerNormalization(name="norm")(hidden + inputs)
    pooled = keras.ops.mean(hidden, axis=1)
    model = keras.Model(inputs, keras.layers.Dense(4, activation="softmax", name="last")(pooled))
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


@pytest.fixture(scope="module")
def program():
    (found,) = ipu_tf.estimate(build, batch_size=2).programs
    return found.device


def test_every_row_of_cycles_has_a_name(program):
    rows = {row.layer.rstrip("_0123456789") for row in figures.layers(program)}
    operations = {"add", "mean"}
    assert rows == {"first", "norm", "last", *operations, "loss", "metrics", "sgd", "(host)"}


def test_the_loss_has_a_backward_pass_and_metrics_have_none(program):
    by_layer = {row.layer: row.by_phase for row in figures.layers(program)}
    assert by_layer["loss"]["backward"] > 0
    assert set(by_layer["metrics"]) == {"forward"}


def test_the_state_of_metrics_is_in_memory_as_metrics(program):
    layers = {tensor.layer for tensor in program.tensors if tensor.always_live}
    assert "metrics" in layers
    assert not layers & {"accuracy", "compile_loss"}
