"""What the loop sees of a model."""

import keras
import numpy as np
import pytest

from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.steps import step_scopes


def test_only_models_of_keras_have_an_adapter():
    with pytest.raises(TypeError, match=r"pass a keras.Model .* Received: 3 of type int"):
        adapter_of(3)


def test_variables_of_a_model_are_told_apart():
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    )
    adapter = adapter_of(model)
    model.compile("sgd", "mse")
    assert [variable.path.split("/")[-1] for variable in adapter.trainable_weights] == [
        "gamma",
        "beta",
    ]
    assert {id(state) for state in adapter.seed_states} < {
        id(variable) for variable in adapter.state_variables
    }
    assert len(adapter.state_variables) == 3  # Two statistics and the state of the dropout.
    of_metrics = {id(variable) for variable in adapter.metric_variables}
    assert of_metrics.isdisjoint(id(variable) for variable in adapter.state_variables)


def test_a_model_without_an_optimizer_does_not_train():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)], name="net")
    model.compile(optimizer=None, loss="mse")
    batch = np.ones((2, 3), "float32"), np.ones((2, 1), "float32")
    with pytest.raises(RuntimeError, match=r"Model 'net' cannot train: .* without an optimizer"):
        step_scopes.train_step(adapter_of(model), batch)
