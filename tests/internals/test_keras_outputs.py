"""Loss and metrics are built on outputs that are known, without another call of the layers."""

import keras
import pytest
import tensorflow as tf

from ipu_tf.internals.keras_outputs import known_outputs
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.keras.steps.step_tracing import training_data

CALLS = []


class Counted(keras.layers.Dense):
    def call(self, inputs):
        CALLS.append(inputs.shape)
        return super().call(inputs)


class OwnCall(keras.Model):
    def call(self, inputs):
        return Counted.call(self.layers[1], inputs)


def graph(cls=keras.Model):
    x = keras.Input((3,))
    return cls(x, Counted(4, activation="sigmoid")(x))


def sequence():
    return keras.Sequential([keras.Input((3,)), Counted(4, activation="sigmoid")])


def built(make):
    """Returns a model built for training, and the shapes that its layer is called with."""
    with IPUStrategy().scope():
        model = make()
        auc = keras.metrics.AUC(4, multi_label=True)
        model.compile("sgd", "mse", metrics=[auc, "mae"], weighted_metrics=["mse"])
        CALLS.clear()
        training_data(model, tf.TensorSpec((2, 3)), None, 2)
    return model, list(CALLS)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("make", [graph, sequence])
def test_layers_of_a_graph_are_called_for_their_shapes_alone(make, monkeypatch):
    model, calls = built(make)
    monkeypatch.setattr(
        "ipu_tf.keras.keras3.estimate_adapter.known_outputs", lambda *_: keras_calls()
    )
    as_keras_does, more = built(make)
    assert len(calls) < len(more)
    shapes = [
        [tuple(weight.shape) for metric in each.metrics for weight in metric.variables]
        for each in (model, as_keras_does)
    ]
    assert shapes[0] == shapes[1] != []
    assert [metric.name for metric in model.metrics] == [m.name for m in as_keras_does.metrics]
    assert model.optimizer.built


def keras_calls():
    return known_outputs(keras.Model(), None)


def test_a_call_of_the_users_own_is_called():
    _, calls = built(lambda: graph(OwnCall))
    assert (2, 3) in calls


def test_calls_outside_and_of_other_models_give_the_outputs():
    with IPUStrategy().scope():
        model, other = graph(), graph()
    ones = tf.ones((2, 3))
    expected = [each(ones) for each in (model, other)]
    with known_outputs(model, model.output):
        with tf.Graph().as_default():
            assert model(tf.zeros((2, 3))).op.type == "Placeholder"
        tf.debugging.assert_equal(other(ones), expected[1])
    tf.debugging.assert_equal(model(ones), expected[0])
