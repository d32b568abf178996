"""Models of tf_keras are exported as those of Keras 3 are."""

import contextlib
import json

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import PipelineStage
from tests.grids import mostly_slow
from tests.keras.tf_keras_training import TOKENS, X, functional, sequential, strategy_of

tf_keras = pytest.importorskip("tf_keras")

layers = tf_keras.layers


class Words(tf_keras.Model):
    """A subclass of integers, with control flow over tensors."""

    def __init__(self):
        super().__init__()
        self.table, self.last = layers.Embedding(10, 6), layers.Dense(3)

    def call(self, tokens):
        x = tf.reduce_mean(self.table(tokens), axis=1)
        if tf.reduce_max(tokens) > 4:
            x *= 2.0
        return self.last(x)


class OwnPrediction(tf_keras.Model):
    """A model that is never called: its step is its own."""

    def __init__(self):
        super().__init__()
        self.last = layers.Dense(3)

    def predict_step(self, x):
        return {"scores": tf.nn.softmax(self.last(x))}


class Staged(tf_keras.Model):
    """A subclass of two stages."""

    def __init__(self):
        super().__init__()
        self.first, self.last = layers.Dense(4, activation="relu"), layers.Dense(3)

    def call(self, inputs):
        with PipelineStage(0):
            x = self.first(inputs)
        with PipelineStage(1):
            return self.last(x)


def in_stages():
    model = tf_keras.Sequential([tf_keras.Input((6,)), layers.Dense(4), layers.Dense(3)])
    model.set_pipeline_stage_assignment([0, 1])
    return model


KINDS = {
    "sequential": (sequential, X, 1),
    "functional": (functional, X, 1),
    "subclass": (Words, TOKENS, 1),
    "stages": (in_stages, X, 2),
    "staged subclass": (Staged, X, 2),
    "own step": (OwnPrediction, X, 1),
}


@pytest.mark.parametrize("kind", mostly_slow(KINDS, fast=["functional"]))
def test_a_model_is_exported(kind, tmp_path):
    make, x, ipus = kind
    strategy = strategy_of(ipus)
    with strategy.scope():
        model = make()
        model.compile(steps_per_execution=4)
        expected = model.predict(x[:16], batch_size=4, verbose=0)
        expected = expected["scores"] if isinstance(expected, dict) else expected
        strategy.reset_report()
        on_device = model.export_for_ipu_serving(tmp_path, batch_size=4, output_names="scores")
        found = on_device(x[:4])["scores"]
    np.testing.assert_array_equal(found, expected[:4])
    (program,) = strategy.report(insights=False).programs
    assert program.name == f"{model.name}.predict_step"
    assert len(program.device.stages) == ipus
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    (name,) = loaded.structured_input_signature[1]
    result = loaded(**{name: tf.constant(x[:4])})["scores"]
    np.testing.assert_allclose(result, expected[:4], rtol=1e-5, atol=1e-6)
    assert json.loads((tmp_path / "assets.extra/ipu_tf.json").read_text())["iterations"] == 4


@pytest.mark.slow
def test_a_subclass_has_the_batch_size_and_types_of_its_first_call(tmp_path):
    with strategy_of().scope():
        model = Words()
        with pytest.raises(RuntimeError, match="have not yet been created"):
            model.export_for_ipu_serving(tmp_path, batch_size=4)
        expected = model(TOKENS[:4])
        on_device = model.export_for_ipu_serving(tmp_path)
    (spec,) = on_device.input_signature
    assert (spec.dtype, spec.shape) == (tf.int32, (4, 4))
    np.testing.assert_allclose(on_device(TOKENS[:4])[0], expected, rtol=1e-5)


@pytest.mark.slow
def test_a_trained_model_and_lookup_layers_are_exported(tmp_path):
    lookup = layers.StringLookup(vocabulary=["low", "high"], output_mode="multi_hot")
    with strategy_of().scope():
        model = tf_keras.Sequential([tf_keras.Input((3,)), layers.Dense(2)])
        model.compile("adam", "mse")
        model.fit(np.ones((4, 3), "float32"), np.ones((4, 2)), batch_size=4, verbose=0)

        def prepared(words):
            return lookup(words)

        model.export_for_ipu_serving(
            tmp_path,
            batch_size=1,
            preprocessing_step=prepared,
            preprocessing_step_signature=[tf.TensorSpec((1, 2), tf.string)],
        )
    expected = model(lookup(tf.constant([["low", "?"]])))
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    found = loaded(words=tf.constant([["low", "?"]]))["output_0"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


class Pair(tf_keras.Model):
    """A subclass of two inputs, perhaps of two stages."""

    def __init__(self, staged):
        super().__init__()
        self.staged, self.first, self.last = staged, layers.Dense(2), layers.Dense(3)

    def stage(self, number):
        return PipelineStage(number) if self.staged else contextlib.nullcontext()

    def call(self, inputs):
        a, b = inputs
        with self.stage(0):
            x = self.first(a)
        with self.stage(1):
            return self.last(x + b)


@pytest.mark.slow
@pytest.mark.parametrize("staged", [False, True])
def test_a_subclass_that_was_only_built_is_exported(staged, tmp_path):
    a, b = X[:2, :3], X[2:4, :2]
    with strategy_of(2 if staged else 1).scope():
        model = Pair(staged)
        size = tf.constant(4)
        model.build([(size, 3), (size, 2)])
        model.compile(steps_per_execution=4)
        on_device = model.export_for_ipu_serving(tmp_path, batch_size=2, output_names="scores")
        assert [spec.shape for spec in on_device.input_signature] == [(2, 3), (2, 2)]
        found = on_device(a, b)["scores"]
    hidden = a @ model.first.kernel.numpy() + b
    np.testing.assert_allclose(found, hidden @ model.last.kernel.numpy(), rtol=1e-5, atol=1e-6)
