"""Callbacks that run beside the device, on a thread of their own."""

import threading
from concurrent.futures import CancelledError

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import config
from ipu_tf.keras.loop.step_results import StepResults
from tests.grids import mostly_slow
from tests.keras.equivalence import BATCH, samples, strategy_of
from tests.keras.small_models import CLASSES, FEATURES, compile_model

STEPS = 12  # More than are prepared ahead of the device.
WAIT = 20  # Seconds, after which a test has failed.


@pytest.fixture(params=mostly_slow({"replicas=1": 1, "replicas=2": 2}, fast=["replicas=1"]))
def replicas(request):
    yield request.param
    config.reset_ipu_configuration()


@pytest.fixture
def model(replicas):
    """Noise keeps its loop out of XLA, which hands over nothing before the loop ends."""
    keras.utils.set_random_seed(7)
    with strategy_of(replicas).scope():
        layers = [keras.layers.GaussianNoise(0.1), keras.layers.Dense(CLASSES)]
        model = keras.Sequential([keras.Input((FEATURES,)), *layers])
        compile_model(model, steps_per_execution=STEPS)
    model.set_asynchronous_callbacks(True)
    return model


def read(replicas, before_last=lambda: None):
    """Returns a dataset of one execution; something happens before its last batches are read."""
    x, y = samples(BATCH)

    def batches():
        for step in range(STEPS):
            if step == STEPS - 1:
                before_last()
            yield from [(x, y)] * replicas

    signature = (tf.TensorSpec(x.shape, x.dtype), tf.TensorSpec(y.shape, y.dtype))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(STEPS * replicas))


class AtStep(keras.callbacks.Callback):
    """Does something at a training step, and counts the steps."""

    def __init__(self, step, action):
        super().__init__()
        self.step, self.action, self.calls = step, action, 0

    def on_train_batch_end(self, batch, logs=None):
        self.calls += 1
        if batch == self.step:
            self.action()


def fit(model, dataset, *callbacks, **kwargs):
    return model.fit(dataset, verbose=0, shuffle=False, callbacks=list(callbacks), **kwargs)


def test_callbacks_run_while_the_device_does(model, replicas):
    called, waited = threading.Event(), []
    # The device does not get its last batch before the callback of the first step has run.
    fit(model, read(replicas, lambda: waited.append(called.wait(WAIT))), AtStep(0, called.set))
    assert waited == [True]


@pytest.mark.slow
def test_an_error_of_the_device_ends_the_thread(model, replicas):
    def fail():
        raise RuntimeError("no such batch")

    before = threading.active_count()
    callback = AtStep(0, lambda: None)
    with pytest.raises(tf.errors.UnknownError, match="no such batch"):
        fit(model, read(replicas, fail), callback)
    assert callback.calls < STEPS
    assert threading.active_count() == before
    callback = AtStep(0, lambda: None)
    fit(model, read(replicas), callback)  # Nothing is left of the execution that failed.
    assert callback.calls == STEPS


@pytest.mark.slow
def test_a_callback_of_a_step_cannot_run_the_model(model, replicas):
    x, _ = samples(BATCH * replicas * STEPS)
    callback = AtStep(0, lambda: model.predict(x, batch_size=BATCH, verbose=0))
    with pytest.raises(RuntimeError, match=f"Model '{model.name}' is busy: a callback"):
        fit(model, read(replicas), callback)


@pytest.mark.slow
def test_the_callback_of_an_epoch_can(model, replicas):
    losses = []

    class Evaluates(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            losses.append(self.model.evaluate(read(replicas), verbose=0)[0])

    callback = AtStep(0, lambda: None)
    history = fit(model, read(replicas), Evaluates(), callback, epochs=2)
    assert callback.calls == 2 * STEPS
    assert len(losses) == len(history.epoch) == 2


@pytest.mark.slow
def test_switching_gives_other_functions(model, replicas):
    callback = AtStep(0, lambda: None)
    fit(model, read(replicas), callback)
    model.set_asynchronous_callbacks(False)
    assert model.train_function is None
    fit(model, read(replicas), callback)
    assert callback.calls == STEPS + 1


def test_results_go_to_the_reader_that_was_opened_last():
    results = StepResults()
    results.put(0)  # To nobody.
    outer = results.open()
    results.put(1)
    inner = results.open()
    results.put_execution({"loss": tf.constant([[2.0], [3.0]])})
    results.close(inner)
    results.put(4)
    assert [outer.take(), outer.take()] == [1, 4]
    assert [inner.take(), inner.take()] == [{"loss": np.float32(2)}, {"loss": np.float32(3)}]
    with pytest.raises(CancelledError):
        inner.take()


def test_the_reading_thread_is_known():
    results = StepResults()
    reader = results.open()
    assert not results.is_read_here()
    results.put(1)
    reader.take()
    assert results.is_read_here()
    results.close(reader)
    assert not results.is_read_here()
