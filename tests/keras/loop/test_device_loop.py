"""The loop over the steps of an execution: the same numbers as step by step, and its rules."""

import logging
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, config, scopes, utils
from ipu_tf.keras.data.infeed import Infeed
from ipu_tf.keras.loop import jitting
from tests.grids import covering, mostly_slow
from tests.keras.equivalence import batches, samples, strategy_of
from tests.keras.small_models import CLASSES, FEATURES, compile_model, sequential


@pytest.fixture
def worth_compiling(monkeypatch):
    """Has XLA compile loops of any length."""
    monkeypatch.setattr(jitting, "JITTED_STEPS", 0)
    monkeypatch.setattr(jitting, "STEPS_PER_OPERATION", 0)


def convolutional():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Reshape((3, 2, 1)),
            keras.layers.Conv2D(4, 2, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5, seed=3),
            keras.layers.Flatten(),
            keras.layers.Dense(CLASSES),
        ]
    )


def normalised():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(16, activation="gelu"),
            keras.layers.LayerNormalization(),
            keras.layers.Dense(CLASSES),
        ]
    )


def with_dropout():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dropout(0.4, seed=3),
            keras.layers.Dense(CLASSES),
        ]
    )


NETWORKS = {
    "dense": sequential,
    "normalised": normalised,
    "with dropout": with_dropout,
    "convolutional": convolutional,
}


def fitted(strategy, network, steps_per_execution, optimizer="adam", validated=True, **options):
    """Returns a model, the dataset that it was trained on, and its logs."""
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(
            NETWORKS[network](), optimizer=optimizer, steps_per_execution=steps_per_execution
        )
    if options:
        model.set_gradient_accumulation_options(**options)
    dataset = batches(samples(96), 4)
    validation = {"validation_data": dataset} if validated else {}
    history = model.fit(dataset, epochs=2, shuffle=False, verbose=0, **validation)
    return model, dataset, history.history


def trained(*args, **kwargs):
    """Returns a trained model, its logs and its predictions."""
    model, dataset, logs = fitted(*args, **kwargs)
    return model, logs, model.predict(dataset, verbose=0)


@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.parametrize("network", mostly_slow(list(NETWORKS), fast=["dense"]))
def test_the_loop_equals_single_steps_to_the_bit(strategy, network):
    looped, _, loop_logs = fitted(strategy, network, 12, validated=False)
    stepped, _, step_logs = fitted(strategy, network, 1, validated=False)
    for loop_weight, step_weight in zip(looped.get_weights(), stepped.get_weights(), strict=True):
        np.testing.assert_array_equal(loop_weight, step_weight)
    assert loop_logs == step_logs


@pytest.mark.slow
@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.parametrize("network", NETWORKS)
def test_loops_of_evaluation_and_prediction_equal_single_steps_to_the_bit(strategy, network):
    _, loop_logs, loop_outputs = trained(strategy, network, 12)
    _, step_logs, step_outputs = trained(strategy, network, 1)
    assert loop_logs == step_logs
    np.testing.assert_array_equal(loop_outputs, step_outputs)


@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.parametrize("network", mostly_slow(list(NETWORKS), fast=["with dropout"]))
@pytest.mark.slow
def test_accumulating_loops_of_any_length_are_equal_to_the_bit(strategy, network):
    accumulation = {"gradient_accumulation_steps_per_replica": 4, "validated": False}
    long, _, long_logs = fitted(strategy, network, 24, **accumulation)
    short, _, short_logs = fitted(strategy, network, 4, **accumulation)
    for long_weight, short_weight in zip(long.get_weights(), short.get_weights(), strict=True):
        np.testing.assert_array_equal(long_weight, short_weight)
    assert long_logs == short_logs


@pytest.mark.slow
@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.parametrize(
    ("network", "jitted"),
    [
        pytest.param("dense", True, marks=pytest.mark.slow),
        ("with dropout", True),
        ("convolutional", False),
    ],
)
@pytest.mark.fast_cells(1)
def test_xla_compiles_the_loops_of_dense_networks(strategy, caplog, network, jitted):
    with caplog.at_level(logging.INFO, jitting.__name__):
        trained(strategy, network, 4)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3  # Training, evaluation and prediction.
    assert all(("is compiled by XLA" in message) == jitted for message in messages)
    if not jitted:
        assert "XLA gains no time with its ops " in messages[0]
        assert "IpuConv2D" in messages[0]


@pytest.mark.parametrize("asked_for", [True, False])
def test_xla_compiles_the_loop_of_few_steps_where_the_model_asks_for_it(
    strategy, caplog, asked_for
):
    with strategy.scope():
        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(2)])
        model.compile(steps_per_execution=2, jit_compile=asked_for)
    with caplog.at_level(logging.INFO, jitting.__name__):
        model.predict(np.ones((8, FEATURES), "float32"), batch_size=4, verbose=0)
    (message,) = (r.getMessage() for r in caplog.records if r.name == jitting.__name__)
    assert ("is compiled by XLA" in message) == asked_for
    assert ("2 steps are too few" in message) != asked_for


GRAPHS, NODES, EDGES = 2, 6, 20


class MessagePassing(keras.layers.Layer):
    """Adds to each node the messages along the edges that lead to it."""

    def __init__(self, width):
        super().__init__()
        self._message = keras.layers.Dense(width, activation="relu")

    def call(self, inputs):
        nodes, senders, receivers = inputs
        rows = tf.reshape(nodes, (GRAPHS * NODES, nodes.shape[-1]))
        first = tf.range(GRAPHS)[:, None] * NODES
        sent = tf.gather(self._message(rows), tf.reshape(senders + first, (-1,)))
        to = tf.reshape(receivers + first, (-1,))
        sums = tf.math.unsorted_segment_sum(sent, to, GRAPHS * NODES)
        return nodes + tf.reshape(sums, nodes.shape)


def graph_network():
    """Messages along edges between nodes, which are looked up in a table."""
    kinds = keras.Input((NODES,), batch_size=GRAPHS, dtype="int32")
    ends = [keras.Input((EDGES,), batch_size=GRAPHS, dtype="int32") for _ in range(2)]
    x = keras.layers.Embedding(5, 8)(kinds)
    for _ in range(2):
        x = MessagePassing(8)([x, *ends])
    outputs = keras.layers.Dense(CLASSES)(keras.layers.GlobalAveragePooling1D()(x))
    return keras.Model([kinds, *ends], outputs)


def graphs(count, kinds=5):
    """Kinds of nodes, edges, and labels, of so many graphs."""
    random = np.random.default_rng(3)
    nodes = random.integers(0, kinds, (count, NODES), np.int32)
    ends = [random.integers(0, NODES, (count, EDGES), np.int32) for _ in range(2)]
    return [nodes, *ends], random.integers(0, CLASSES, count, np.int32)


def fitted_graph_network(strategy, data, **options):
    """Returns a graph network that was trained, and its logs."""
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(graph_network(), optimizer="adam", steps_per_execution=5, **options)
    history = model.fit(*data, batch_size=GRAPHS, epochs=2, shuffle=False, verbose=0)
    return model, history.history


def test_graph_networks_train_the_same_in_loops_that_xla_compiles(strategy, caplog):
    with caplog.at_level(logging.INFO, jitting.__name__):
        jitted, jitted_logs = fitted_graph_network(strategy, graphs(20), jit_compile=True)
    assert "is compiled by XLA" in caplog.text
    model, logs = fitted_graph_network(strategy, graphs(20))
    for name, values in logs.items():
        np.testing.assert_allclose(jitted_logs[name], values, rtol=1e-5)
    for ours, theirs in zip(jitted.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("jitted", [True, False])
def test_nodes_of_no_kind_in_the_table_are_an_error(strategy, jitted):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, 5\)"):
        fitted_graph_network(strategy, graphs(20, kinds=7), jit_compile=jitted)


@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.slow
def test_large_networks_are_not_jitted(strategy, caplog, monkeypatch):
    monkeypatch.setattr(jitting, "MAX_JITTED_BYTES", 64)
    with caplog.at_level(logging.INFO, jitting.__name__):
        trained(strategy, "dense", 4)
    assert "bytes, more than 64" in caplog.records[0].getMessage()


@pytest.mark.slow
@pytest.mark.usefixtures("worth_compiling")
def test_dropout_trains_the_same_in_loops_that_xla_compiles(strategy, monkeypatch):
    _, jitted_logs, jitted_outputs = trained(strategy, "with dropout", 12)
    monkeypatch.setattr(jitting, "MAX_JITTED_BYTES", -1)
    _, logs, outputs = trained(strategy, "with dropout", 12)
    for name, values in logs.items():
        np.testing.assert_allclose(jitted_logs[name], values, rtol=1e-5)
    np.testing.assert_allclose(jitted_outputs, outputs, rtol=1e-5, atol=1e-6)


class AlwaysDropping(keras.layers.Layer):
    """Dropout in predictions, too."""

    def __init__(self):
        super().__init__()
        self._dropout = keras.layers.Dropout(0.4, seed=3)

    def call(self, inputs):
        return self._dropout(inputs, training=True)


def dropped(strategy):
    """Returns what dropout keeps of ones in the steps of an execution."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((FEATURES,)), AlwaysDropping()])
        model.compile(steps_per_execution=12)
    return model.predict(np.ones((48, FEATURES), "float32"), batch_size=4, verbose=0)


@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.slow
def test_dropout_draws_the_same_in_loops_that_xla_compiles(strategy, monkeypatch, caplog):
    with caplog.at_level(logging.INFO, jitting.__name__):
        jitted = dropped(strategy)
        monkeypatch.setattr(jitting, "MAX_JITTED_BYTES", -1)
        outputs = dropped(strategy)
    first, second = (r.getMessage() for r in caplog.records if "loop around" in r.getMessage())
    assert "is compiled by XLA" in first
    assert "graph executor" in second
    np.testing.assert_array_equal(jitted, outputs)
    assert np.unique(jitted[:4]).size == 2
    assert not np.array_equal(jitted[:4], jitted[4:8])


def test_ops_that_nothing_needs_do_not_count():
    @tf.function
    def inner(x):
        tf.nn.softplus(x)
        return tf.nn.relu(x)

    @tf.function
    def step(x, variable):
        tf.sort(x)
        variable.assign_add(tf.nn.elu(x))
        tf.function(tf.nn.selu)(x)
        return tf.cond(x[0] > 0, lambda: inner(x), lambda: x)

    variable = tf.Variable([1.0, 2.0])
    function = step.get_concrete_function(tf.TensorSpec([2]), variable)
    operations = jitting.live_operations(function)
    assert {"AssignAddVariableOp", "Elu", "Relu"} <= operations.keys()
    assert not {"Softplus", "TopKV2", "Neg", "Selu"} & operations.keys()
    assert operations["Relu"] == operations["Elu"] == 1


@pytest.mark.slow
def test_tracing_does_not_take_longer_for_more_steps(strategy, monkeypatch):
    created = []
    graph_op = tf.Graph._create_op_internal

    def counting(self, op_type, *args, **kwargs):
        created[-1] += 1
        return graph_op(self, op_type, *args, **kwargs)

    monkeypatch.setattr(tf.Graph, "_create_op_internal", counting)
    for steps in (6, 24):
        created.append(0)
        trained(strategy, "convolutional", steps)
    assert created[0] == created[1]


DIGEST = """
import hashlib
import sys
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
tf.config.threading.set_inter_op_parallelism_threads(int(sys.argv[1]))
from ipu_tf.keras.loop import jitting
from tests.keras.equivalence import strategy_of
from tests.keras.loop.test_device_loop import NETWORKS, trained
jitting.JITTED_STEPS = jitting.STEPS_PER_OPERATION = 0
strategy = strategy_of(2)
for network in NETWORKS:
    model, _, outputs = trained(
        strategy, network, 12, gradient_accumulation_steps_per_replica=2
    )
    for array in (*model.get_weights(), outputs):
        print(network, hashlib.sha256(array.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_threads():
    digests = [
        subprocess.run(
            [sys.executable, "-c", DIGEST, threads], check=True, capture_output=True, text=True
        ).stdout
        for threads in ("1", "2", "2")
    ]
    assert len(digests[0].splitlines()) > 10
    assert digests[0] == digests[1] == digests[2]


def fit(model, count=48, **kwargs):
    return model.fit(batches(samples(count), 4), shuffle=False, verbose=0, **kwargs)


@pytest.fixture
def model(strategy):
    with strategy.scope():
        return compile_model(sequential(), steps_per_execution=5)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_executions_that_do_not_divide_the_data_are_refused(model, method):
    message = (
        rf"`{method}` of model '{model.name}': `steps_per_execution` \(5\) must be a divisor of "
        r"the number of batches \(12\) in the dataset provided.*steps_per_execution=4"
    )
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(batches(samples(48), 4), verbose=0)


def test_executions_that_do_not_divide_the_validation_data_are_refused(model):
    with pytest.raises(ValueError, match=r"validation data.*\(5\) must be a divisor.*\(12\)"):
        fit(model, 40, validation_data=batches(samples(48), 4))
    with pytest.raises(ValueError, match=r"another `validation_steps`"):
        fit(model, 40, validation_data=batches(samples(48), 4), validation_steps=6)


@pytest.mark.slow
def test_executions_longer_than_an_epoch_are_shortened(model, caplog):
    ends = []

    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            ends.append(batch)

    with caplog.at_level(logging.WARNING, "ipu_tf"):
        fit(model, 12, callbacks=[Ends()])
    assert "`steps_per_execution` (5) is more than the 3 steps of an epoch" in caplog.text
    assert ends == [2]
    assert int(model.optimizer.iterations) == 3
    assert model.steps_per_execution == 5


@pytest.mark.slow
def test_validation_may_be_shorter_than_an_execution(model):
    x, y = samples(8)
    history = fit(model, 20, epochs=2, validation_data=(x, y), validation_batch_size=4)
    expected = model.evaluate(x, y, batch_size=4, verbose=0)
    np.testing.assert_allclose(history.history["val_loss"][-1], expected[0], rtol=1e-6)


def test_data_of_unknown_size_needs_steps(model):
    dataset = batches(samples(40), 4).filter(lambda x, y: True)
    with pytest.raises(ValueError, match="Could not infer the size of the data. Pass `steps_per"):
        model.fit(dataset, shuffle=False)
    model.fit(dataset, steps_per_epoch=5, epochs=2, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) == 10


@pytest.mark.slow
def test_single_steps_and_arrays_are_hinted_at(strategy, caplog):
    with strategy.scope():
        model = compile_model(sequential())
    with caplog.at_level(logging.INFO, "ipu_tf"):
        model.fit(*samples(8), batch_size=4, verbose=0)
    assert "runs one step per call of the device. A larger `steps_per_execution`" in caplog.text
    assert "a `tf.data.Dataset` feeds the device faster" in caplog.text
    assert (
        "a weight update sees 4 samples: batches of 4, 1 micro-batches, 1 replicas" in caplog.text
    )


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("fit", "make_train_function"),
        ("evaluate", "make_test_function"),
        ("predict", "make_predict_function"),
    ],
)
@pytest.mark.parametrize("on_instance", [False, True])
def test_overridden_functions_are_refused(strategy, method, name, on_instance):
    def own(self, *args, **kwargs):
        raise AssertionError

    layers = [keras.Input((FEATURES,)), keras.layers.Dense(CLASSES)]
    with strategy.scope():
        if on_instance:
            model = compile_model(keras.Sequential(layers))
            setattr(model, name, own)
        else:
            model = compile_model(type("Own", (keras.Sequential,), {name: own})(layers))
    message = (
        rf"The function `{name}` for the model {model.name} has been overridden\. .*"
        "`enable_keras_extensions=False`"
    )
    with pytest.raises(RuntimeError, match=message):
        getattr(model, method)(batches(samples(8), 4))


def test_overridden_functions_run_without_the_extensions(data):
    class Custom(keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"custom": loss}

    x, _ = data
    strategy = IPUStrategy(enable_keras_extensions=False)
    with strategy.scope():
        model = Custom([keras.Input((FEATURES,)), keras.layers.Dense(1)])
        model.compile("sgd")
    data = (x[:16], x[:16, :1] * 2)  # Keras 2 logs the last batch of an epoch, Keras 3 their mean.
    history = model.fit(*data, batch_size=16, epochs=2, verbose=0).history
    assert list(history) == ["custom"]
    assert history["custom"][1] < history["custom"][0]


@pytest.mark.slow
def test_stock_models_run_in_the_scope(strategy, data):
    x, y = data
    dataset = batches(data, 16)
    with IPUStrategy(enable_keras_extensions=False).scope():
        model = compile_model(sequential(), steps_per_execution=1)
        assert type(model) is keras.Sequential
        model.fit(dataset, validation_data=dataset, epochs=2, shuffle=False, verbose=0)
        model.fit(x, y, batch_size=16, verbose=0)
        model.evaluate(dataset, verbose=0)
        assert model.predict(dataset, verbose=0).shape == (48, CLASSES)
    assert int(model.optimizer.iterations) == 2 * 3 + 3


class Batches(keras.callbacks.Callback):
    """Notes what callbacks are told, and the losses."""

    def __init__(self):
        super().__init__()
        self.events = []

    def on_train_batch_begin(self, batch, logs=None):
        self.events.append(("train begin", batch, None))

    def on_train_batch_end(self, batch, logs=None):
        self.events.append(("train", batch, logs["loss"]))

    def on_test_batch_end(self, batch, logs=None):
        self.events.append(("test", batch, logs["loss"]))

    def on_predict_batch_end(self, batch, logs=None):
        self.events.append(("predict", batch, logs["outputs"].shape))

    def on_epoch_end(self, epoch, logs=None):
        self.events.append(("epoch", epoch, logs["loss"]))


def events_of(strategy, steps_per_execution, *, asynchronous):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(sequential(), steps_per_execution=steps_per_execution)
    model.set_asynchronous_callbacks(asynchronous)
    callback, dataset = Batches(), batches(samples(24), 4)
    arguments = {"verbose": 0, "callbacks": [callback]}
    model.fit(dataset, epochs=2, shuffle=False, validation_data=dataset, **arguments)
    model.evaluate(dataset, **arguments)
    model.predict(dataset, **arguments)
    return callback.events


def test_callbacks_are_called_once_an_execution(strategy):
    events = events_of(strategy, 3, asynchronous=False)
    assert [(kind, step) for kind, step, _ in events if kind == "train"] == [
        ("train", 2),
        ("train", 5),
    ] * 2


@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.slow
def test_asynchronous_callbacks_are_called_once_a_step(strategy):
    stepwise = events_of(strategy, 1, asynchronous=False)
    asynchronous = events_of(strategy, 3, asynchronous=True)
    assert [event[:2] for event in asynchronous] == [event[:2] for event in stepwise]
    for (_, _, value), (_, _, expected) in zip(asynchronous, stepwise, strict=True):
        assert value == pytest.approx(expected, rel=1e-6) if value else expected is None


def test_an_exception_in_an_asynchronous_callback_comes_up(strategy):
    class Failing(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise ZeroDivisionError(f"at step {batch}")

    with strategy.scope():
        model = compile_model(sequential(), steps_per_execution=3)
    model.set_asynchronous_callbacks(True)
    with pytest.raises(ZeroDivisionError, match="at step 0"):
        fit(model, callbacks=[Failing()])
    assert model.steps_per_execution == 3


@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.slow
def test_an_exception_of_the_device_ends_the_thread(strategy):
    seen = []

    class Seen(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(batch)

    x, y = samples(24)
    y[20:] = CLASSES + 5

    def checked(features, label):
        with tf.control_dependencies([tf.debugging.assert_less(label, CLASSES)]):
            return features, tf.identity(label)

    dataset = tf.data.Dataset.from_tensor_slices((x, y)).map(checked).batch(4, drop_remainder=True)
    with strategy.scope():
        model = compile_model(sequential(), steps_per_execution=2)
    model.set_asynchronous_callbacks(True)
    with pytest.raises(tf.errors.InvalidArgumentError):
        model.fit(dataset, shuffle=False, verbose=0, callbacks=[Seen()])
    assert seen[-1] < 4
    assert not [thread for thread in threading_names() if "callbacks" in thread]


def threading_names():
    import threading

    return [thread.name for thread in threading.enumerate()]


@pytest.mark.slow
def test_stop_training_stops_asynchronous_callbacks(strategy):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    with strategy.scope():
        model = compile_model(sequential(), steps_per_execution=3)
    model.set_asynchronous_callbacks(True)
    history = fit(model, epochs=5, callbacks=[Stop()])
    assert len(history.epoch) == 1


@pytest.mark.slow
def test_the_infeed_prefetches_as_deep_as_it_is_told(model, monkeypatch):
    depths = []
    original = Infeed.__init__

    def noting(self, *args, prefetch_depth, **kwargs):
        depths.append(prefetch_depth)
        original(self, *args, prefetch_depth=prefetch_depth, **kwargs)

    monkeypatch.setattr(Infeed, "__init__", noting)
    fit(model, 40)
    model.set_infeed_queue_options(prefetch_depth=7)
    fit(model, 40)
    assert depths == [3, 7]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dataset": 1}, ValueError, "`dataset` cannot be set in the infeed queue options"),
        ({"element_spec": 1}, ValueError, "Keras makes the infeed queue from the data"),
        ({"prefetch_depth": 256}, ValueError, "integer from 1 to 255.*Received: 256"),
        ({"prefetch_depth": -1}, ValueError, "Received: -1"),
        ({"device_ordinal": -1}, ValueError, "`device_ordinal` must be an integer of at least 0"),
        ({"depth": 1}, TypeError, "Unknown options of infeed queue: depth. Options are device_ord"),
    ],
)
def test_infeed_options_are_checked(model, options, error, message):
    with pytest.raises(error, match=message):
        model.set_infeed_queue_options(**options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"outfeed_mode": 1}, ValueError, "`outfeed_mode` cannot be set in the outfeed queue opt"),
        ({"device_ordinal": 0}, ValueError, "the device of the model's strategy"),
        ({"buffer_depth": 0}, ValueError, "`buffer_depth` must be a positive integer"),
        (
            {"depth": 1},
            TypeError,
            "Unknown options of outfeed queue: depth. Options are buffer_d",
        ),
    ],
)
def test_outfeed_options_are_checked(model, options, error, message):
    with pytest.raises(error, match=message):
        model.set_outfeed_queue_options(**options)


def test_asynchronous_is_a_bool(model):
    with pytest.raises(TypeError, match="`asynchronous` must be True or False. Received: 1"):
        model.set_asynchronous_callbacks(1)


CHANGES = {
    "accumulation": lambda model: model.set_gradient_accumulation_options(1),
    "replication": lambda model: model.set_replication_options("MEAN"),
    "infeed": lambda model: model.set_infeed_queue_options(prefetch_depth=2),
    "outfeed": lambda model: model.set_outfeed_queue_options(buffer_depth=2),
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("change", mostly_slow(CHANGES, fast=["replication", "infeed"]))
@pytest.mark.slow
def test_functions_are_made_anew_after_a_change_of_options(model, change):
    fit(model, 40)
    before = model.train_function
    change(model)
    fit(model, 40)
    assert model.train_function is not before


def test_models_made_outside_have_no_such_methods():
    assert not hasattr(sequential(), "set_gradient_accumulation_options")


@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.slow
def test_stochastic_rounding_draws_the_same_bits_in_any_loop(strategy):
    policy = keras.mixed_precision.Policy("float16")
    layers = [
        keras.layers.Dense(8, activation="relu", dtype=policy),
        keras.layers.Dense(CLASSES, dtype=policy),
        keras.layers.Activation("linear", dtype="float32"),
    ]
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = compile_model(
            keras.Sequential([keras.Input((FEATURES,)), *layers]), optimizer="sgd"
        )
    start = model.get_weights()

    def weights_after(steps_per_execution, seed):
        model.steps_per_execution = steps_per_execution
        model.set_weights(start)
        utils.reset_ipu_seed(seed)
        with scopes.stochastic_rounding(True):
            fit(model, 96)
        return model.get_weights()

    stepped, looped, other = weights_after(1, 3), weights_after(6, 3), weights_after(6, 4)
    for one, six in zip(stepped, looped, strict=True):
        np.testing.assert_array_equal(one, six)
    assert any((six != seeded).any() for six, seeded in zip(looped, other, strict=True))


@pytest.mark.parametrize("steps_per_execution", mostly_slow([1, 2], fast=["2"]))
@pytest.mark.slow
def test_validation_of_replicas(steps_per_execution):
    keras.utils.set_random_seed(7)
    try:
        with strategy_of(2).scope():
            model = compile_model(sequential(), steps_per_execution=steps_per_execution)
        model.set_replication_options("MEAN")
        model.set_asynchronous_callbacks(True)
        data = batches(samples(32), 4)
        history = fit(model, 48, epochs=2, validation_data=data).history
        loss, accuracy = model.evaluate(data, verbose=0)
    finally:
        config.reset_ipu_configuration()
    x, y = samples(32)
    assert history["val_loss"][-1] == pytest.approx(loss)
    assert history["val_accuracy"][-1] == pytest.approx(accuracy)
    assert loss == pytest.approx(
        float(model.compute_loss(y=tf.constant(y), y_pred=model(x))), rel=1e-5
    )


@pytest.mark.usefixtures("worth_compiling")
@pytest.mark.parametrize(*covering(1, label=[CLASSES, -1], network=["dense", "convolutional"]))
@pytest.mark.slow
def test_labels_out_of_range_fail_before_they_destroy_weights(strategy, network, label):
    x, y = samples(48)
    y[30] = label
    with strategy.scope():
        model = compile_model(NETWORKS[network](), steps_per_execution=12)
    initial_weights = model.get_weights()
    message = rf"Received a label value of {label} which is outside the valid range of \[0, 3\)"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        model.fit(batches((x, y), 4), shuffle=False, verbose=0)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    if network == "dense":
        # They are those after the steps before.
        with strategy.scope():
            whole = compile_model(NETWORKS[network](), steps_per_execution=7)
        whole.set_weights(initial_weights)
        whole.fit(batches((x[:28], y[:28]), 4), shuffle=False, verbose=0)
        for weight, expected in zip(model.get_weights(), whole.get_weights(), strict=True):
            np.testing.assert_array_equal(weight, expected)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        model.evaluate(batches((x, y), 4), verbose=0)
    model.fit(batches(samples(48), 4), shuffle=False, verbose=0)
