"""Automatic loss scaling of named optimizers: they train as `ALSOptimizer` around them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.optimizers import (
    ALSOptimizer,
    ALSOptimizerAdam,
    ALSOptimizerRMSProp,
    ALSOptimizerSGD,
)
from tests.keras.optimizers.parameters import VARIABLE

SETTINGS = {"initial_loss_scaling_factor": 4, "update_frequency": 2}
PAIRS = {
    "adam": (
        lambda: ALSOptimizerAdam(0.1, 0.8, 0.9, 1e-3, 4, 2),
        lambda: keras.optimizers.Adam(0.1, 0.8, 0.9, 1e-3),
    ),
    "sgd": (
        lambda: ALSOptimizerSGD(0.1, momentum=0.5, **SETTINGS),
        lambda: keras.optimizers.SGD(0.1, 0.5),
    ),
    "rmsprop": (
        lambda: ALSOptimizerRMSProp(0.1, 0.8, 0.5, 1e-3, True, **SETTINGS),
        lambda: keras.optimizers.RMSprop(0.1, 0.8, 0.5, 1e-3, True),
    ),
}


def weights_after_steps(optimizer):
    weights = VARIABLE(np.linspace(-1, 1, 5), dtype="float16")
    for value in (1.0, -3.0, 20000.0, 0.5, 2.0):
        optimizer.apply_gradients([(tf.fill([5], tf.constant(value, tf.float16)), weights)])
    return weights.numpy(), float(optimizer.loss_scaling_factor)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("named", PAIRS)
def test_it_trains_as_the_optimizer_wrapped(named):
    make, inner = PAIRS[named]
    ours, factor = weights_after_steps(make())
    wrapped, wrapped_factor = weights_after_steps(ALSOptimizer(inner(), **SETTINGS))
    np.testing.assert_array_equal(ours, wrapped)
    assert factor == wrapped_factor
    assert np.any(ours != np.linspace(-1, 1, 5).astype(np.float16))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("named", PAIRS)
def test_its_configuration_makes_it_again(named):
    optimizer = PAIRS[named][0]()
    config = keras.saving.serialize_keras_object(optimizer)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()
    assert "opt" not in again.get_config()
    np.testing.assert_array_equal(weights_after_steps(again)[0], weights_after_steps(optimizer)[0])


def test_a_schedule_is_kept():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    optimizer = ALSOptimizerSGD(schedule)
    again = ALSOptimizerSGD.from_config(optimizer.get_config())
    rates = [one.inner_optimizer.get_config()["learning_rate"] for one in (again, optimizer)]
    assert rates[0] == rates[1]
    assert rates[0]["class_name"] == "ExponentialDecay"


@pytest.mark.parametrize("cls", [ALSOptimizerAdam, ALSOptimizerRMSProp, ALSOptimizerSGD])
def test_settings_are_checked(cls):
    with pytest.raises(ValueError, match=r"increase_factor must be a power of two.*Received"):
        cls(increase_factor=3)
