"""A script that is tried out runs few steps: whole updates, at least one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf.base import trial
from ipu_tf.keras.data.epoch_steps import EpochSteps, within_limit
from ipu_tf.keras.data.lengths import DataUse


@pytest.mark.parametrize(
    ("limit", "steps", "of_update", "expected"),
    [(None, 9, 1, 9), (4, 9, 1, 4), (4, 3, 1, 3), (7, 12, 3, 6), (2, 12, 3, 3), (100, 9, 3, 9)],
)
def test_loops_run_whole_updates_within_the_limit(limit, steps, of_update, expected):
    with trial.steps_limited_to(limit):
        assert trial.limited_steps(steps, of_update=of_update) == expected
    assert trial.step_limit() is None


def test_a_limit_is_positive():
    with (
        pytest.raises(ValueError, match=r"at least one step\. Received: 0"),
        trial.steps_limited_to(0),
    ):
        pass


@pytest.mark.parametrize(
    ("limit", "epoch", "epochs", "of_update", "expected"),
    [
        (10, (100, 100), 3, 1, (10, 10, 1)),  # The execution shrinks.
        (10, (100, 4), 3, 1, (10, 2, 1)),
        (11, (100, 20), 3, 4, (8, 8, 1)),
        (2, (12, 4), 1, 4, (4, 4, 1)),
        (25, (10, 5), 9, 1, (10, 5, 2)),  # Whole epochs within the limit.
        (25, (10, 5), 1, 1, (10, 5, 1)),
        (10, (12, 3), 1, 2, (12, 3, 1)),  # No whole updates: the error is the usual one.
    ],
)
def test_executions_divide_the_shorter_epoch(limit, epoch, epochs, of_update, expected):
    schedule = EpochSteps(steps=epoch[0], steps_per_execution=epoch[1])
    use = DataUse(model="m", method="fit", epochs=epochs)
    with trial.steps_limited_to(limit):
        found, left = within_limit(schedule, use, of_update=of_update)
    assert (found.steps, found.steps_per_execution, left) == expected


@pytest.fixture
def model():
    with ipu_tf.IPUStrategy().scope():
        made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="tried")
        made.compile(keras.optimizers.SGD(0.1), "mse", steps_per_execution=6)
    return made


def data(steps):
    return np.ones((4 * steps, 4), "float32"), np.ones((4 * steps, 2), "float32")


def test_every_method_of_a_model_is_limited(model, caplog):
    x, y = data(12)
    with trial.steps_limited_to(2):
        history = model.fit(x, y, batch_size=4, epochs=3, validation_data=(x, y), verbose=0)
        assert model.optimizer.iterations == 2
        model.evaluate(x, y, batch_size=4, verbose=0)
        assert model.predict(x, batch_size=4, verbose=0).shape == (8, 2)
    assert len(history.epoch) == 1
    assert "`fit` of model 'tried' runs 2 of 36 steps (--max-steps 2)." in caplog.text
    assert "`evaluate` of model 'tried' runs 2 of 12 steps (--max-steps 2)." in caplog.text
    model.fit(x, y, batch_size=4, verbose=0)
    assert model.optimizer.iterations == 14


@pytest.mark.slow
def test_updates_stay_whole_and_equal_those_of_fewer_data(model):
    x, y = data(12)
    model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=3)
    before = model.get_weights()
    with trial.steps_limited_to(5):
        model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    limited = model.get_weights()
    assert model.optimizer.iterations == 1
    model.set_weights(before)
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(4, True).take(3), verbose=0)
    assert all(np.array_equal(a, b) for a, b in zip(limited, model.get_weights(), strict=True))
