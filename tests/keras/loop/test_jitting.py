"""The choice between XLA and the graph executor."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, config
from ipu_tf.config import IPUConfig
from ipu_tf.internals.tensorflow import op_def_registry
from ipu_tf.keras.loop import jitting
from ipu_tf.ops.kernels import library
from ipu_tf.processes.instances import Instances
from tests.keras.equivalence import batches, samples
from tests.keras.small_models import CLASSES, FEATURES, compile_model, sequential


def test_every_op_that_is_listed_exists():
    library.load()
    unknown = [
        name
        for name in jitting.JITTED_OPS | jitting.SCATTERED_UPDATES
        if op_def_registry.get(name) is None
    ]
    assert unknown == []


@pytest.fixture
def engines(caplog):
    """Returns what was said of the engines since it was called last."""
    caplog.set_level(logging.INFO, jitting.__name__)

    def said():
        messages = [r.getMessage() for r in caplog.records if "The loop around" in r.getMessage()]
        caplog.clear()
        return messages

    return said


@pytest.fixture
def model(strategy, monkeypatch):
    monkeypatch.setattr(jitting, "JITTED_STEPS", 40)
    monkeypatch.setattr(jitting, "STEPS_PER_OPERATION", 0)
    with strategy.scope():
        return compile_model(sequential())


def fit(model, steps, **kwargs):
    model.fit(batches(samples(4 * steps), 4), verbose=0, shuffle=False, **kwargs)


@pytest.mark.slow
def test_xla_compiles_a_loop_that_is_long_enough(model, engines):
    fit(model, 10, epochs=4)
    (message,) = engines()
    assert message.endswith("is compiled by XLA.")


def test_a_short_loop_stays_with_the_graph_executor(model, engines):
    fit(model, 13, epochs=3)
    (message,) = engines()
    assert message.endswith(
        "runs in the graph executor: 39 steps are too few: compilation gains time from 40 on."
    )


@pytest.mark.slow
def test_steps_of_all_calls_are_added_up(model, engines):
    for _ in range(3):
        fit(model, 12)
    assert len(engines()) == 1  # A choice is logged once.
    fit(model, 12)
    assert "is compiled by XLA" in engines()[0]
    fit(model, 12)
    assert engines() == []


@pytest.mark.slow
def test_steps_of_single_batches_are_added_up(model, engines):
    x, y = samples(4)
    for _ in range(40):
        model.train_on_batch(x, y)
    assert ["is compiled by XLA" in message for message in engines()] == [False, True]


@pytest.mark.slow
def test_one_pass_over_data_has_one_engine(model, engines):
    """Other calls meanwhile change neither the engine nor the batches that are read."""
    seen = []

    class TrainsToo(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(batch)
            self.model.test_on_batch(*samples(4))

    validation = batches(samples(4 * 30), 4)
    fit(model, 6, callbacks=[TrainsToo()], epochs=2, validation_data=validation)
    assert seen == 2 * list(range(6))


@pytest.mark.slow
def test_an_operation_has_its_price(model, engines, monkeypatch):
    monkeypatch.setattr(jitting, "STEPS_PER_OPERATION", 1)
    fit(model, 40)
    (message,) = engines()
    assert "40 steps are too few: compilation gains time from " in message
    assert int(message.split("gains time from ")[1].split()[0]) > 80


@pytest.mark.slow
def test_a_step_of_many_operations_is_not_compiled(model, engines, monkeypatch):
    monkeypatch.setattr(jitting, "MAX_JITTED_OPERATIONS", 20)
    fit(model, 40)
    (message,) = engines()
    assert "runs in the graph executor: it has " in message
    assert " operations, more than 20." in message


@pytest.mark.slow
def test_models_that_are_trained_for_a_few_steps_are_not_compiled(strategy, engines):
    """Compiling costs more than all the rest of sixty small models that are trained for a while."""
    with strategy.scope():
        model = compile_model(sequential())
    fit(model, 16, epochs=10)
    (message,) = engines()
    assert "160 steps are too few" in message


@pytest.mark.slow
@pytest.mark.parametrize("network", ["an unrolled LSTM", "250 dense layers"])
def test_networks_that_xla_compiles_for_minutes_are_not_compiled(strategy, engines, network):
    if network == "an unrolled LSTM":
        layers, shape = [keras.layers.LSTM(32, unroll=True)], (120, 8)
    else:
        layers, shape = [keras.layers.Dense(32, "relu") for _ in range(250)], (32,)
    with strategy.scope():
        model = keras.Sequential([keras.Input(shape), *layers, keras.layers.Dense(4)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = np.zeros((4, *shape), "float32"), np.zeros(4, "int32")
    model.train_on_batch(x, y)
    assert f" operations, more than {jitting.MAX_JITTED_OPERATIONS}." in engines()[0]


def attending():
    inputs = keras.Input((5, FEATURES))
    outputs = keras.layers.MultiHeadAttention(2, 3)(inputs, inputs)
    return inputs, outputs


def multiplying():
    inputs = keras.Input((5, FEATURES))
    return inputs, keras.layers.EinsumDense("abc,cd->abd", output_shape=(5, 4))(inputs)


@pytest.mark.parametrize("network", [attending, multiplying])
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_models_of_batched_products_are_compiled(strategy, engines, monkeypatch, network):
    monkeypatch.setattr(jitting, "JITTED_STEPS", 0)
    monkeypatch.setattr(jitting, "STEPS_PER_OPERATION", 0)
    with strategy.scope():
        inputs, outputs = network()
        model = keras.Model(inputs, keras.layers.Dense(CLASSES)(keras.layers.Flatten()(outputs)))
        compile_model(model)
    x = tf.random.stateless_normal((8, 5, FEATURES), [1, 2])
    model.fit(x, samples(8)[1], batch_size=4, verbose=0)
    assert ["is compiled by XLA" in message for message in engines()] == [True]


def test_the_loop_of_a_job_of_instances_is_not_jitted(monkeypatch):
    step = tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec((2,)))
    assert jitting.EngineChoice(step).runs_jitted(10**6)
    two = Instances(count=2, total_replicas=2, launcher="poprun")
    monkeypatch.setattr(jitting, "instances", lambda: two)
    assert not jitting.EngineChoice(step).runs_jitted(10**6)


def test_the_loop_of_replicas_is_jitted_where_the_model_asks_for_it():
    step = tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec((2,)))
    assert not jitting.EngineChoice(step, replicas=2).runs_jitted(10**6)
    assert jitting.EngineChoice(step, replicas=2, engine="xla").runs_jitted(1)


@pytest.mark.parametrize(
    ("engine", "asks", "is_jitted"),
    [("graph", False, False), ("graph", True, False), ("auto", True, True), ("xla", False, True)],
)
def test_the_configuration_chooses_the_engine(engines, engine, asks, is_jitted):
    cfg = IPUConfig()
    cfg.simulator.engine = engine
    cfg.configure_ipu_system()
    try:
        with IPUStrategy().scope():
            model = compile_model(sequential(), jit_compile=asks)
        fit(model, 8)
    finally:
        config.reset_ipu_configuration()
    (message,) = engines()
    assert ("is compiled by XLA" in message) == is_jitted
    assert ("`simulator.engine` is 'graph'" in message) == (engine == "graph")
