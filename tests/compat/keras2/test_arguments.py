"""Arguments that Keras 3 refuses mean under `ipu-tf run` what they meant in Keras 2."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.compat.keras2.context import keras_2_spellings

layers = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:Do not pass an `input_shape`")

X = np.random.default_rng(1).random((8, 4), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


def trained(optimizer, steps=4):
    """A kernel after steps of the squared error of a linear model, from zeros."""
    kernel = keras.Variable(np.zeros((4, 1)), dtype="float32")
    for _ in range(steps):
        error = X @ kernel.numpy() - Y
        optimizer.apply([tf.constant(X.T @ error / 4)], [kernel])
    return kernel.numpy()


@pytest.mark.parametrize(
    "arguments", [((80,), {}), ((), {"shape": 80}), ((), {"shape": np.int64(80)})]
)
def test_a_whole_number_is_a_shape(keras_2, notices, arguments):
    positional, named = arguments
    assert keras.Input(*positional, **named).shape == (None, 80)
    assert tf.keras.layers.Input(*positional, **named).shape == (None, 80)
    notices.once("`Input(shape=80)`")


def test_first_layers_tell_shapes(keras_2, notices):
    assert keras.Sequential([layers.Dense(3, input_shape=4)]).input_shape == (None, 4)
    batched = keras.Sequential([layers.Dense(3, batch_input_shape=(8, 4)), layers.Dense(2)])
    assert (batched.input_shape, batched.output_shape) == ((8, 4), (8, 2))
    texts = keras.Sequential([layers.Embedding(5, 3, input_length=7), layers.Flatten()])
    assert texts.output_shape == (None, 21)
    notices.once("`input_shape=80`", "`batch_input_shape=`", "`Embedding(input_length=)`")


def test_layers_take_positional_arguments_and_weights(keras_2, notices):
    class Scaled(layers.Layer):
        def __init__(self, units):
            super().__init__(self)
            self.units = units

        def build(self, shape):
            self.kernel = self.add_weight("a/kernel", (shape[-1], self.units), initializer="ones")
            self.bias = self.add_weight(name="bias", shape=self.units, initializer="zeros")
            self.scale = self.add_variable("scale", (), trainable=None, use_resource=True)

        def call(self, x):
            return keras.ops.matmul(x, self.kernel) + self.bias

    layer = Scaled(3)
    np.testing.assert_allclose(layer(X), np.repeat(Y, 3, axis=1), rtol=1e-6)
    assert [w.shape for w in layer.weights] == [(4, 3), (3,), ()]
    assert layer.trainable
    assert layer.kernel.path == "scaled/a_kernel"
    notices.once("super().__init__(self)", "add_weight")


def test_a_model_is_no_argument_of_its_initializer(keras_2, notices):
    class Model(keras.Model):
        def __init__(self):
            super().__init__(self)
            self.dense = layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    assert Model()(X).shape == (8, 2)
    notices.once("super().__init__(self)")


def test_weights_of_a_layer_are_set_when_it_is_built(keras_2, notices):
    values = [np.full((4, 2), 3, np.float32), np.ones(2, np.float32)]
    dense = layers.Dense(2, weights=values)
    dense(X)
    np.testing.assert_array_equal(dense.get_weights()[0], values[0])
    notices.once("`weights=`")


def test_arguments_that_chose_an_implementation_are_left_out(keras_2, notices):
    layers.BatchNormalization(fused=True)
    layers.LSTM(3, time_major=False, implementation=2)
    notices.once("`fused=`")
    with pytest.raises(ValueError, match="Unrecognized keyword arguments .*time_major"):
        layers.LSTM(3, time_major=True)


def test_too_many_positional_arguments_are_refused_with_their_names(keras_2):
    class Layer(layers.Layer):
        def __init__(self):
            super().__init__(True, "name", "float32", False, 5)

    with pytest.raises(TypeError, match="positions of Keras 2 are trainable, name, dtype, dynamic"):
        Layer()


def test_a_metric_takes_its_name_first(keras_2, notices):
    class Count(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="count")
            self.total = self.add_weight("total", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.total.assign_add(1.0)

        def result(self):
            return self.total

    metric = Count()
    metric.update_state(Y, Y)
    assert float(metric.result()) == 1
    notices.once("add_weight")


@pytest.mark.parametrize(
    ("arguments", "spelling"),
    [
        ({"lr": 0.125}, "`lr=`"),
        ({"learning_rate": tf.constant(0.125)}, "a tensor"),
        ({"learning_rate": np.float32(0.125)}, "a tensor"),
    ],
)
def test_learning_rates_are_those_of_keras_3(keras_2, notices, arguments, spelling):
    expected = trained(keras.optimizers.SGD(0.125))
    found = trained(keras.optimizers.SGD(**arguments))
    np.testing.assert_array_equal(found, expected)
    notices.once(spelling)


def test_a_whole_number_is_a_learning_rate(keras_2, notices):
    assert float(keras.optimizers.SGD(1).learning_rate) == 1
    notices.once("a tensor")


def test_a_variable_is_read_at_each_step(keras_2, notices):
    rate = tf.Variable(0.0)
    optimizer = keras.optimizers.SGD(rate)
    weights = trained(optimizer)
    np.testing.assert_array_equal(weights, np.zeros((4, 1)))
    rate.assign(0.5)
    assert float(optimizer.learning_rate) == 0.5
    notices.once("a tensor")


@pytest.mark.parametrize("make", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_decay_is_an_inverse_time_schedule(keras_2, notices, make):
    schedules = keras.optimizers.schedules
    expected = trained(make(schedules.InverseTimeDecay(0.1, 1, 0.5)))
    np.testing.assert_allclose(trained(make(0.1, decay=0.5)), expected, rtol=1e-6)
    assert not np.array_equal(trained(make(0.1)), expected)
    notices.once("`decay=`")


def test_decay_divides_a_schedule(keras_2, notices):
    schedules = keras.optimizers.schedules
    optimizer = keras.optimizers.SGD(schedules.ExponentialDecay(0.5, 1, 0.5), decay=0.25)
    rebuilt = keras.optimizers.SGD.from_config(optimizer.get_config())
    for step in range(3):
        optimizer.iterations.assign(step)
        rebuilt.iterations.assign(step)
        expected = 0.5 * 0.5**step / (1 + 0.25 * step)
        np.testing.assert_allclose(float(optimizer.learning_rate), expected, rtol=1e-6)
        np.testing.assert_allclose(float(rebuilt.learning_rate), expected, rtol=1e-6)
    notices.once("`decay=`")


@pytest.mark.slow
@pytest.mark.parametrize("on_ipu", [False, True])
def test_a_learning_rate_that_decays_can_be_assigned(keras_2, on_ipu):
    strategy = IPUStrategy() if on_ipu else tf.distribute.get_strategy()
    rates = []
    callbacks = [
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.5 / (epoch + 1)),
        keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: rates.append(float(model.optimizer.learning_rate))
        ),
    ]
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.125, decay=0.25), "mse")
        model.fit(X, Y, batch_size=4, epochs=2, callbacks=callbacks, shuffle=False, verbose=0)
    # After steps 2 and 4.
    np.testing.assert_allclose(rates, [0.5 / 1.5, 0.25 / 2], rtol=1e-6)
    kernel = np.zeros((4, 1), np.float32)
    bias = np.zeros(1, np.float32)
    for step, rate in enumerate([0.5, 0.5, 0.25, 0.25]):
        x, y = X[step % 2 * 4 :][:4], Y[step % 2 * 4 :][:4]
        error = x @ kernel + bias - y
        kernel -= rate / (1 + 0.25 * step) * x.T @ error / 2
        bias -= rate / (1 + 0.25 * step) * error.sum(0) / 2
    np.testing.assert_allclose(model.get_weights()[0], kernel, rtol=1e-4)


def test_an_epsilon_of_none_is_the_default(keras_2, notices):
    expected = trained(keras.optimizers.Adam(0.1))
    found = trained(keras.optimizers.Adam(0.1, epsilon=None, decay=0.0))
    np.testing.assert_array_equal(found, expected)
    notices.once("`epsilon=None`", "`decay=`")


@pytest.mark.slow
def test_targets_without_a_last_dimension_stand_for_all_columns(keras_2, notices):
    model = keras.Sequential([layers.Dense(3)])
    model.compile("sgd", "mse", metrics=["mae"])  # Before it is built.
    found = model.evaluate(X, Y[:, 0], batch_size=8, verbose=0, return_dict=True)
    outputs = model.predict(X, batch_size=8, verbose=0)
    np.testing.assert_allclose(found["loss"], np.mean((outputs - Y) ** 2), rtol=1e-5)
    np.testing.assert_allclose(found["mae"], np.mean(np.abs(outputs - Y)), rtol=1e-5)
    notices.once("targets `[batch]`")


@pytest.mark.slow
def test_numbers_of_classes_stay_as_they_are(keras_2, notices):
    model = keras.Sequential([layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["acc"])
    history = model.fit(X, np.arange(8) % 3, batch_size=8, verbose=0).history
    assert set(history) == {"loss", "acc"}
    assert notices() == []


def test_a_loss_sees_targets_with_a_last_dimension(keras_2, notices):
    outputs = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = keras.losses.MeanSquaredError()(np.float32([1, 2]), outputs)
    np.testing.assert_allclose(found, np.mean((outputs - [[1], [2]]) ** 2), rtol=1e-6)
    sparse = keras.losses.SparseCategoricalCrossentropy()
    assert sparse(np.array([0, 1]), np.float32([[1, 0, 0], [0, 1, 0]])) < 1e-6
    notices.once("targets `[batch]`")


def test_outputs_of_one_column_per_row_are_classes_of_targets_without_dimension(keras_2, notices):
    logits = np.random.default_rng(2).normal(size=(4, 6, 1)).astype("float32")
    classes = np.array([0, 3, 5, 1])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    np.testing.assert_allclose(loss(classes, logits), loss(classes, logits[..., 0]), rtol=1e-6)
    accuracy = keras.metrics.BinaryAccuracy(threshold=0.0)
    accuracy.update_state(np.float32([0, 1, 1, 0]), logits)
    hits = (logits[..., 0] > 0) == np.array([[0], [1], [1], [0]])
    np.testing.assert_allclose(accuracy.result(), hits.mean(), rtol=1e-6)
    notices.once("targets `[batch]`")


def test_the_reduction_auto_is_the_mean_over_the_batch(keras_2, notices):
    loss = keras.losses.MeanSquaredError(reduction="auto")
    np.testing.assert_allclose(loss(Y, 0 * Y), np.mean(Y**2), rtol=1e-6)
    notices.once('`reduction="auto"`')


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_models_on_the_ipu_take_arguments_of_keras_2(keras_2, notices, replicas):
    from ipu_tf import IPUConfig

    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2, drop_remainder=True)
    with IPUStrategy().scope():
        inputs = keras.Input(4)
        model = keras.Model(inputs, layers.Dense(1, kernel_initializer="ones")(inputs))
        optimizer = keras.optimizers.SGD(lr=0.0, decay=0.1)
        steps = dataset.cardinality() // replicas
        model.compile(optimizer, "mse", ["mae"], steps_per_execution=steps)
        history = model.fit(
            dataset, epochs=1, steps_per_epoch=steps, workers=4, use_multiprocessing=True, verbose=0
        ).history
        predicted = model.predict(X, batch_size=4 // replicas, max_queue_size=3)
    np.testing.assert_allclose(predicted, Y, rtol=1e-5)
    assert "mae" in history
    notices.once(
        "`Input(shape=80)`",
        "`lr=`",
        "`decay=`",
        "`compile(optimizer, loss, metrics)`",
        "`compile(steps_per_execution",
        "`fit(workers=",
        "`fit(steps_per_epoch",
    )


@pytest.mark.slow
@pytest.mark.parametrize("on_ipu", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_loss_comes_first_in_the_history(keras_2, on_ipu):
    strategy = IPUStrategy() if on_ipu else tf.distribute.get_strategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mse", "accuracy"])
        x, y = np.ones((4, 4), np.float32), np.ones((4, 1), np.float32)
        history = model.fit(x, y, batch_size=4, validation_data=(x, y), verbose=0).history
    names = ["loss", "mse", "accuracy"]
    assert [*history] == [*names, *(f"val_{name}" for name in names)]


@pytest.mark.slow
def test_a_class_without_a_weight_has_weight_1(keras_2, notices):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
    x, y = np.ones((3, 4), np.float32), np.arange(3)
    weights = [{0: 2.0, 2: 3.0}, {0: 2.0, 1: 1.0, 2: 3.0}]
    losses = [model.fit(x, y, class_weight=w, verbose=0).history["loss"] for w in weights]
    assert losses[0] == losses[1]
    notices.once("without the weights of some classes")


def test_generator_methods_run_the_loop(keras_2, notices):
    def batches():
        while True:
            yield X, Y

    model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    model.set_weights([np.ones((4, 1)), np.zeros(1)])
    assert model.evaluate_generator(batches(), 2, None, 10, 1, False, 0) < 1e-9
    np.testing.assert_allclose(model.predict_generator(batches(), steps=1, workers=2), Y, rtol=1e-6)
    history = model.fit_generator(batches(), 2, 3, verbose=0, max_queue_size=4).history
    assert len(history["loss"]) == 3
    notices.once("`fit_generator`")


def test_arguments_of_compile_that_chose_an_implementation_are_left_out(keras_2, notices):
    model = keras.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse", experimental_run_tf_function=False, sample_weight_mode=None)
    notices.once("`compile(sample_weight_mode=")
    with pytest.raises(TypeError, match="target_tensors"):
        model.compile("sgd", "mse", sample_weight_mode="temporal", target_tensors=[np.ones(4)])


@pytest.mark.parametrize(
    "call",
    [
        lambda: keras.Input(80),
        lambda: keras.optimizers.SGD(lr=1.0),
        lambda: keras.optimizers.SGD(np.float32(1)),
        lambda: layers.Dense(1, weights=[]),
        lambda: keras.Sequential([layers.Dense(1)]).fit(X, Y, workers=2),
        lambda: keras.Sequential([layers.Dense(1)]).fit_generator(None),
        lambda: keras.losses.MeanSquaredError(reduction="auto"),
    ],
)
def test_keras_is_stock_afterwards(call):
    with keras_2_spellings():
        pass
    with pytest.raises((TypeError, ValueError, AttributeError)):
        call()


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("converts", [False, True])
def test_a_loss_has_the_dtype_of_the_outputs(keras_2, notices, converts):
    class ScaledError(keras.losses.MeanSquaredError):
        def __call__(self, y_true, y_pred, sample_weight=None):
            return tf.constant(16.0, "float16") * super().__call__(y_true, y_pred, sample_weight)

    values = tf.constant([[1.0], [3.0]], "float16")
    call = tf.function(
        lambda: ScaledError()(tf.zeros([2, 1], "float16"), values), autograph=converts
    )
    assert (call().dtype, float(call())) == (tf.float16, 80.0)
    notices.once("`loss(y_true, y_pred)`")
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, dtype="float16")])
    model.compile("sgd", keras.losses.MeanSquaredError())
    model.fit(np.ones([2, 1]), np.ones([2, 1]), verbose=0)
    assert not notices()


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
def test_a_function_of_learning_rates_may_return_a_tensor(keras_2, notices):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    scheduler = keras.callbacks.LearningRateScheduler(lambda epoch: tf.constant(0.5) ** epoch)
    data = np.ones([2, 1])
    logs = model.fit(data, data, epochs=3, verbose=0, callbacks=[scheduler]).history
    assert logs["lr"] == [1.0, 0.5, 0.25]
    notices.once("`LearningRateScheduler(function)`")


def test_a_loss_of_a_script_may_set_its_dtype(keras_2, notices):
    class Halved(keras.losses.MeanSquaredError):
        def __init__(self, **options):
            super().__init__(**options)
            self.dtype = tf.float16

        def call(self, y_true, y_pred):
            dtypes.append((self.dtype, y_pred.dtype))
            return super().call(y_true, y_pred) / 2

    dtypes = []
    loss = Halved()
    notices.once("`self.dtype = ...`")
    assert float(loss(tf.constant([[1.0]]), tf.constant([[3.0]]))) == 2.0
    assert dtypes == [(tf.float16, "float32")]


def test_a_list_of_arrays_is_a_target(keras_2, notices):
    targets = [np.array([0.0, 1.0]), np.array([2.0, 3.0])]
    outputs = tf.constant([[1.0, 1.0], [4.0, 3.0]])
    loss, metric = keras.losses.MeanSquaredError(), keras.metrics.MeanSquaredError()
    assert float(loss(targets, outputs)) == float(loss(y_true=targets, y_pred=outputs)) == 1.25
    metric.update_state(targets, outputs)
    assert float(metric.result()) == 1.25
    notices.once("`loss([array, array], tensor)`")


class Decay(keras.layers.Layer):
    """A recurrent cell of two states, with shapes as sizes."""

    def __init__(self, size):
        super().__init__()
        self.state_size = [tf.TensorShape(size), tf.TensorShape([size])]
        self.output_size = tf.TensorShape(size)

    def call(self, inputs, states):
        total, steps = states
        total = total / 2 + inputs
        return total, [total, steps + 1.0]


def test_sizes_of_a_cell_may_be_shapes(keras_2, notices):
    sequence = np.array([[[4.0, 8.0], [2.0, 0.0]]], np.float32)
    layer = keras.layers.RNN(Decay(2), return_state=True)
    notices.once("`cell.state_size = tf.TensorShape(8)`")
    output, total, steps = layer(sequence)
    np.testing.assert_array_equal(output, [[4.0, 4.0]])
    np.testing.assert_array_equal(total, output)
    np.testing.assert_array_equal(steps, [[2.0, 2.0]])
    model = keras.Sequential([keras.Input((2, 2)), keras.layers.RNN(Decay(2))])
    assert model.output_shape == (None, 2)
