"""Methods and attributes that Keras 3 lacks."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.compat.keras2.context import keras_2_spellings

layers = keras.layers
X = np.random.default_rng(1).random((8, 4), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


class Linear(layers.Layer):
    """A layer whose weights are variables of TensorFlow."""

    def build(self, shape):
        self.kernel = tf.Variable(tf.zeros((shape[-1], 1)), name="linear/kernel")
        self.others = [tf.Variable(tf.zeros(1)), tf.Variable(0.0, trainable=False)]
        super().build(shape)

    def call(self, x):
        self.others[1].assign_add(1.0)
        return tf.matmul(x, self.kernel) + self.others[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.parametrize("on_ipu", [True, False])
def test_variables_of_tensorflow_are_weights(keras_2, notices, on_ipu, tmp_path):
    strategy = IPUStrategy() if on_ipu else tf.distribute.get_strategy()
    with strategy.scope():
        model, stock = (
            keras.Sequential([keras.Input((4,)), layer])
            for layer in (Linear(), layers.Dense(1, kernel_initializer="zeros"))
        )
        for one in (model, stock):
            one.compile(keras.optimizers.SGD(0.125), "mse")
            one.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    kernel, bias, count = model.get_weights()
    np.testing.assert_allclose(kernel, stock.get_weights()[0], rtol=1e-6)
    np.testing.assert_allclose(bias, stock.get_weights()[1], rtol=1e-6)
    assert count > 1
    assert len(model.trainable_weights) == 2
    model.save_weights(tmp_path / "a.weights.h5")
    model.layers[0].kernel.assign(tf.zeros((4, 1)))
    model.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(model.layers[0].kernel, kernel)
    notices.once("`layer.kernel = tf.Variable(...)`")


def test_a_variable_is_one_weight_however_often_it_is_set(keras_2):
    layer = layers.Layer()
    layer.a = layer.b = tf.Variable(1.0)
    layer.own = keras.Variable(2.0)
    assert [float(weight) for weight in layer.weights] == [1, 2]
    assert len(layer.trainable_weights) == 2


def test_names_of_weights_begin_with_their_layer(keras_2, notices):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, name="a layer"), keras.layers.Dense(1, name="b")],
        name="net",
    )
    keras.models.clone_model(model).set_weights(model.get_weights())
    assert not notices()
    kernel, bias = model.layers[0].weights
    assert (kernel.name, bias.name) == ("net/a layer/kernel:0", "net/a layer/bias:0")
    assert kernel.path == "net/a layer/kernel"
    assert kernel.value.name == "net/a_layer/kernel:0"
    notices.once("layer.kernel.name")


def test_layers_have_the_methods_of_keras_2(keras_2, notices):
    seen = []
    inputs = keras.Input((4,))
    layer = layers.Dense(3)
    layer(inputs)
    layer.add_update([lambda: seen.append(1), tf.constant(3)])
    assert seen == [1]
    assert (layer.input_shape, layer.output_shape) == ((None, 4), (None, 3))
    notices.once("`layer.add_update`")


def test_a_layer_may_keep_a_shape_of_its_own(keras_2, notices):
    layer = layers.Layer()
    layer.output_shape = (3, 4)
    assert layer.output_shape == (3, 4)
    assert notices() == []


@pytest.mark.slow
def test_models_have_the_methods_of_keras_2(keras_2, notices):
    kernel = np.float32([[1, 0], [0, 1], [0, 0], [0, 0]])
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    model.set_weights([kernel, np.zeros(2)])
    np.testing.assert_array_equal(model.predict_classes(X, 8), X[:, :2].argmax(axis=1))
    np.testing.assert_allclose(model.predict_proba(X, 8), X[:, :2], rtol=1e-6)
    one = keras.Sequential([model, layers.Lambda(lambda x: x[:, :1])])
    np.testing.assert_array_equal(one.predict_classes(X, 8), X[:, :1] > 0.5)
    assert model.state_updates == []
    assert model._get_distribution_strategy() is model.distribute_strategy
    notices.once("`model.predict_classes`")


def test_states_are_reset(keras_2, notices):
    metric = keras.metrics.Mean()
    metric.update_state(3.0)
    metric.reset_states()
    assert float(metric.result()) == 0
    model = keras.Sequential([keras.Input((3, 4), batch_size=2), layers.LSTM(2, stateful=True)])
    model(X[:6].reshape(2, 3, 4))
    model.reset_states()
    assert not np.any(model.layers[0].states[0])
    model(X[:6].reshape(2, 3, 4))
    model.layers[0].reset_states()
    assert not np.any(model.layers[0].states[0])
    notices.once("`metric.reset_states`", "`model.predict_classes`")


def test_experimental_compile_is_jit_compile(keras_2, notices):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    model.compile("sgd", "mse", experimental_compile=True)
    assert model.jit_compile is True
    model.compile("sgd", "mse", experimental_compile=False)
    assert model.jit_compile is False
    notices.once("`compile(experimental_compile=)`")


@pytest.mark.filterwarnings("ignore")
def test_functions_take_experimental_compile(keras_2):
    @tf.function(experimental_compile=True)
    def product(x):
        return x @ x

    strategy = IPUStrategy()
    found = strategy.run(product, args=(tf.constant(X[:4]),))
    np.testing.assert_allclose(found, X[:4] @ X[:4], rtol=1e-5)


def test_methods_are_gone_afterwards():
    layer = layers.Layer()
    layer.a = tf.Variable(1.0)
    assert layer.weights == []
    for name in ("add_update", "output_shape"):
        assert not hasattr(layer, name)
    assert not hasattr(keras.Model, "predict_classes")
    assert not hasattr(keras.metrics.Mean, "reset_states")


class OwnSteps(keras.Model):
    """A model whose `test_step` leaves its metric as it is."""

    def __init__(self):
        super().__init__()
        self.w = self.add_weight(shape=(4, 1), initializer="ones", name="w")
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def call(self, x):
        return tf.matmul(x, self.w)

    def train_step(self, x):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.trainable_variables)
            loss = tf.reduce_mean(self(x))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}

    def test_step(self, x):
        return {"loss": tf.reduce_mean(self(x))}


@pytest.mark.slow
def test_logs_of_an_epoch_are_what_the_last_step_returned(keras_2, notices):
    """Gradients are means over the batch of x, of which the tape watches the weights alone."""
    with IPUStrategy().scope():
        model = OwnSteps()
        model.compile(keras.optimizers.SGD(1.0), steps_per_execution=2)
        history = model.fit(X, batch_size=4, shuffle=False, validation_data=(X,), verbose=0).history
    first, last = X[:4].mean(axis=0), X[4:].mean(axis=0)
    losses = [first.sum(), last @ (1.0 - first)]
    np.testing.assert_allclose(history["loss"], [np.mean(losses)], rtol=1e-6)
    np.testing.assert_allclose(history["val_loss"], [last @ (1.0 - first - last)], rtol=1e-6)
    notices.once("`tape.watch(layer.kernel)`", "a `train_step` or `test_step` that returns")


def test_dtypes_of_weights_have_the_attributes_of_tensorflow(keras_2):
    layer = layers.Dense(1, dtype="float16")
    layer.build((None, 2))
    weight = layers.Layer().add_weight("free", shape=(1,), experimental_autocast=False)
    assert "free" in weight.name
    assert layer.kernel.dtype == "float16"
    assert layer.kernel.dtype.size == 2
    assert layer.kernel.dtype.base_dtype is tf.float16


def test_weights_have_the_methods_of_tensorflows_variables(keras_2, notices):
    class Scaled(layers.Layer):
        def build(self, input_shape):
            self.rows = self.add_weight(name="rows", shape=(3, 2), initializer="ones")

        def call(self, inputs):
            while self.rows.get_shape().rank < len(inputs.get_shape().as_list()):
                raise AssertionError("both have two dimensions")
            last = self.rows.sparse_read([2]) + self.rows.gather_nd([[2]])
            return inputs * self.rows.read_value() + last

    layer = Scaled(dtype="mixed_float16")
    outputs = keras.Model(x := keras.Input((2,), batch_size=3), layer(x))(tf.ones((3, 2)))
    assert outputs.dtype == tf.float16
    np.testing.assert_array_equal(outputs, np.full((3, 2), 3.0))
    layer.rows.scatter_update(tf.IndexedSlices([[5.0, 5.0]], [1]))
    np.testing.assert_array_equal(layer.rows, [[1, 1], [5, 5], [1, 1]])
    assert layer.rows.device == layer.rows.value.device
    assert {layer.rows.ref(): 1}[layer.rows.ref()] == 1
    notices.once("`layer.kernel.get_shape()`")
    with pytest.raises(AttributeError, match="'Variable' object has no attribute 'shapes'"):
        layer.rows.shapes  # noqa: B018


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("in_scope", [True, False])
def test_an_epoch_keeps_the_logs_of_its_last_batch_though_a_callback_resets_metrics(
    keras_2, notices, in_scope
):
    class Resets(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.last = dict(logs)
            self.model.reset_metrics()

    with IPUStrategy().scope() if in_scope else contextlib.nullcontext():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
    resets = Resets()
    history = model.fit(
        np.ones((8, 3), np.float32),
        np.ones((8, 1), np.float32),
        batch_size=4,
        verbose=0,
        callbacks=[resets],
    )
    assert resets.last["loss"] > 0
    assert {name: values[-1] for name, values in history.history.items()} == resets.last
    notices.once("a `train_step` or `test_step` that returns")


def test_a_model_is_summarized_after_shapes_are_those_of_tensorflow_1(keras_2, notices):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    shape = model.weights[0].shape
    lines = []
    tf.compat.v1.disable_v2_tensorshape()
    try:
        model.summary(print_fn=lines.append)
        assert list(model.weights[0].shape) == model.weights[0].shape.as_list() == [3, 2]
    finally:
        tf.compat.v1.enable_v2_tensorshape()
    assert "Total params: 8 " in "".join(lines)
    assert isinstance(shape, tf.TensorShape)
    notices.once("`model.summary()` after")


class Normalized(layers.Wrapper):
    """Gives a layer a kernel of length one an output."""

    def build(self, shape):
        self.layer.build(shape)
        self.direction = self.layer.kernel
        self.built = True

    def call(self, x):
        axes = list(range(len(self.direction.shape) - 1))
        self.layer.kernel = tf.nn.l2_normalize(self.direction, axes)
        return self.layer(x)


def test_a_wrapper_replaces_the_kernel_of_a_layer(keras_2, notices):
    positive = keras.initializers.RandomUniform(0.1, 1.0, seed=1)  # No sum near zero.
    layer = layers.Dense(3, use_bias=False, kernel_initializer=positive)
    model = keras.Sequential([keras.Input((4,)), Normalized(layer)])
    notices.once("`layer.kernel = tf.Variable(...)`, `layer.kernel = tensor`")
    (kernel,) = model.get_weights()
    np.testing.assert_allclose(model(X), X @ (kernel / np.linalg.norm(kernel, axis=0)), rtol=1e-5)
    model.compile("sgd", "mse")
    model.fit(X, Y, epochs=1, verbose=0)
    (trained,) = model.get_weights()
    assert trained.shape == kernel.shape
    assert not np.array_equal(trained, kernel)


def test_states_of_a_recurrent_layer_are_set(keras_2, notices):
    layer = layers.GRU(2, stateful=True)
    with pytest.raises(ValueError, match="it has 0 states until it is called. Received: 1 arrays"):
        layer.reset_states([np.ones((1, 2))])
    layer.build((1, 3, 4))
    layer.reset_states(states=np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(layer.states[0], [[1, 1]])
    with pytest.raises(ValueError, match="it has 1 states. Received: 2 arrays"):
        layer.reset_states([np.ones((1, 2))] * 2)
    layer.reset_states()
    np.testing.assert_array_equal(layer.states[0], [[0, 0]])
    with pytest.raises(AttributeError, match="must be stateful"):
        layers.GRU(2).reset_states([np.ones((1, 2))])
    notices.once("`rnn.reset_states(states=)`")


def test_yaml_is_refused(keras_2):
    with pytest.raises(RuntimeError, match=r"to_yaml of model .*Use to_json"):
        keras.Sequential().to_yaml()


def test_lists_of_weights_equal_lists_of_the_variables_that_a_layer_was_given(keras_2):
    layer = layers.Layer()
    layer.w, layer.b = tf.Variable([1.0, 2.0]), tf.Variable([3.0])
    assert layer.weights == [layer.w, layer.b]
    assert list(layer.weights[0] == [1.0, 0.0]) == [True, False]


def test_layers_and_models_tell_whether_they_keep_a_state(keras_2, notices):
    before = layers.Layer()
    before.stateful = True
    recurrent = layers.LSTM(1, stateful=True)
    assert (before.stateful, recurrent.stateful) == (True, True)
    assert notices() == []  # They say so themselves.
    inner = keras.Sequential([layers.Dense(1), recurrent])
    models = [keras.Sequential([inner]), keras.Sequential([layers.Dense(1)])]
    assert [model.stateful for model in models] == [True, False]
    assert [model.dynamic for model in (*models, recurrent)] == [False] * 3
    notices.once("`layer.dynamic`, `layer.stateful`")


def test_own_values_of_added_attributes_stay_after_a_script():
    with keras_2_spellings():
        layer = layers.Layer()
        layer.stateful, layer.updates = True, [1]
        assert (layer.stateful, layer.updates) == (True, [1])
    assert (layer.stateful, layer.updates) == (True, [1])
    assert not hasattr(layers.Layer(), "stateful")
