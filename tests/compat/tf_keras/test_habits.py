"""What Keras 2.6 did otherwise than 2.15."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.compat.tf_keras.context import keras_2_for_scripts
from tests.keras.tf_keras_training import X, check_equal, sequential, strategy_of, trained

tf_keras = pytest.importorskip("tf_keras")


@pytest.fixture
def keras():
    with keras_2_for_scripts():
        import keras

        yield keras


@pytest.mark.filterwarnings("ignore:The `lr` argument is deprecated")
def test_optimizers_are_the_legacy_ones(keras):
    legacy = tf_keras.optimizers.legacy
    assert keras.optimizers.Adam is legacy.Adam
    assert keras.optimizers.Optimizer is legacy.Optimizer
    assert keras.optimizers.AdamW is tf_keras.optimizers.AdamW
    assert float(keras.optimizers.SGD(lr=0.5, decay=1e-3).lr) == 0.5
    assert isinstance(keras.optimizers.get("adam"), legacy.Adam)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("SGD", "mse")
    assert isinstance(model.optimizer, legacy.SGD)
    assert tf_keras.optimizers.Adam is not legacy.Adam
    assert isinstance(tf_keras.optimizers.get("adamw"), tf_keras.optimizers.AdamW)


def test_loss_scaling_wraps_the_legacy_ones(keras):
    scaled = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    assert isinstance(scaled, keras.optimizers.Optimizer)


def test_loss_scaling_may_be_subclassed(keras):
    class Fixed(keras.mixed_precision.LossScaleOptimizer):
        def __init__(self, optimizer, scale):
            super().__init__(optimizer, dynamic=False, initial_scale=scale)

    scaled = Fixed(keras.optimizers.SGD(0.1), 8)
    assert float(scaled.get_scaled_loss(tf.constant(2.0))) == 16
    assert isinstance(scaled, tf_keras.mixed_precision.LossScaleOptimizer)


@pytest.mark.parametrize("by_position", [True, False])
@pytest.mark.fast_cells(1)
def test_a_tensor_is_a_number_of_steps(keras, by_position):
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    steps = tf.data.Dataset.range(6).cardinality()
    if by_position:
        model.compile("sgd", "mse", None, None, None, None, steps)
    else:
        model.compile("sgd", "mse", steps_per_execution=steps)
    x = np.ones((6, 2), "float32")
    assert len(model.fit(x, x[:, :1], batch_size=1, verbose=0).epoch) == 1


def test_losses_of_layers_alone_need_no_targets(keras):
    def logs(**options):
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,), **options)])
        model.compile("sgd", "mse")
        return model.train_step((tf.ones((3, 2)),))

    assert float(logs(kernel_initializer="ones", kernel_regularizer="l2")["loss"]) > 0
    with pytest.raises(ValueError, match="Target data is missing"):
        logs()


def test_masked_steps_count_in_the_mean_of_a_loss(keras):
    layers = [
        keras.layers.Masking(input_shape=(2, 1)),
        keras.layers.Dense(1, kernel_initializer="ones"),
    ]
    x, y = tf.constant([[[1.0], [0.0]]]), tf.constant([[[3.0], [9.0]]])
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    assert float(model.compute_loss(x, y, model(x))) == (3 - 1) ** 2 / 2


@pytest.mark.parametrize(("given", "trains"), [("name", True), (None, False), (1, True)])
def test_anything_says_whether_a_layer_trains(keras, given, trains):
    assert keras.layers.Layer(given).trainable is trains
    assert keras.layers.Layer(trainable=given).trainable is trains


def test_a_layer_takes_itself_for_true(keras):
    class Doubled(keras.layers.Layer):
        def __init__(self):
            super().__init__(self)

    assert Doubled().trainable is True


def drawn(keras, seed):
    """The values that two layers with one initializer draw after TensorFlow was seeded."""
    tf.random.set_seed(seed)
    shared = keras.initializers.GlorotUniform()
    return [shared((2, 3)).numpy(), shared((2, 3)).numpy()]


def test_initializers_draw_from_the_seed_of_tensorflow(keras):
    first, second = drawn(keras, 1)
    np.testing.assert_array_equal(drawn(keras, 1), [first, second])
    assert (first != second).all()
    tf.random.set_seed(1)
    # The bounds of Glorot's uniform distribution over five features.
    np.testing.assert_array_equal(first, tf.random.uniform((2, 3), -(1.2**0.5), 1.2**0.5))
    same = keras.initializers.HeNormal(seed=3), tf_keras.initializers.HeNormal(seed=3)
    np.testing.assert_array_equal(same[0]((2, 3)), same[1]((2, 3)))


NUMBERS = np.linspace(0, 1, 8, dtype="float32")


def predicted_shape(model):
    """The shape of predictions for samples that are numbers, after training on them."""
    weights = np.ones(8, "float32")
    model.fit(NUMBERS, NUMBERS, batch_size=4, sample_weight=weights, verbose=0)
    model.evaluate(NUMBERS, NUMBERS, batch_size=4, verbose=0)
    return model.predict(NUMBERS, batch_size=4, verbose=0).shape


@pytest.mark.parametrize("on_ipu", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_samples_that_are_numbers_are_rows(keras, on_ipu):
    seen = set()

    def loss(y_true, y_pred):
        seen.add((y_true.shape.rank, y_pred.shape.rank))
        return tf.square(y_true - y_pred)

    with strategy_of().scope() if on_ipu else contextlib.nullcontext():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", loss)
        assert predicted_shape(model) == (8, 1)
    assert seen == {(2, 2)}


def test_own_steps_get_numbers_as_they_are(keras):
    ranks = []

    class Own(keras.Model):
        def train_step(self, data):
            ranks.append([part.shape.rank for part in data])
            return {"loss": tf.constant(0.0)}

    model = Own()
    model.compile()
    model.fit(NUMBERS, NUMBERS, batch_size=4, verbose=0)
    assert ranks == [[1, 1]]


@pytest.mark.slow
def test_models_of_a_scope_without_extensions_are_stock(keras):
    how = {"batch_size": 8, "epochs": 2, "shuffle": False}
    strategy = strategy_of(enable_keras_extensions=False)
    found = trained(strategy, sequential, keras.optimizers.SGD, **how)
    assert type(found[0]) is tf_keras.Sequential
    assert not hasattr(found[0], "set_pipelining_options")
    check_equal(found, trained(None, sequential, keras.optimizers.SGD, **how))


@pytest.mark.slow
def test_layers_of_preprocessing_adapt_in_a_scope(keras):
    words = np.array(["a b", "b c"])
    with strategy_of().scope():
        made = keras.layers.Normalization(), keras.layers.TextVectorization(output_mode="int")
        for layer, data in zip(made, (X, words), strict=True):
            layer.adapt(tf.data.Dataset.from_tensor_slices(data).batch(2))
        model = keras.Sequential([made[0], keras.layers.Dense(3)])
        model.compile("sgd", "mse")
        found = model.predict(X, batch_size=8, verbose=0)
    stock = tf_keras.layers.Normalization()
    stock.adapt(X)
    np.testing.assert_allclose(made[0](X), stock(X), rtol=1e-5, atol=1e-6)
    assert made[1].get_vocabulary() == ["", "[UNK]", "b", "c", "a"]
    assert found.shape == (48, 3)


@pytest.mark.parametrize("on_ipu", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_logs_of_an_epoch_are_those_of_its_last_step(keras, on_ipu):
    class Resets(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.last = dict(logs)
            self.model.reset_metrics()

    resets = Resets()
    with strategy_of().scope() if on_ipu else contextlib.nullcontext():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
        how = {"batch_size": 4, "verbose": 0, "callbacks": [resets]}
        history = model.fit(np.ones((8, 3), "float32"), np.ones((8, 1), "float32"), **how).history
    assert resets.last["loss"] > 0
    assert {name: values[-1] for name, values in history.items()} == resets.last
