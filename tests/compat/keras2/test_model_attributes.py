"""Attributes of models, metrics and optimizers, and arguments of callbacks and layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import backend as K

from ipu_tf import IPUStrategy
from ipu_tf.keras.optimizers import GradientAccumulationOptimizer

layers = keras.layers
X = np.random.default_rng(1).random((8, 4), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


def two_outputs():
    x = keras.Input((4,), name="x")
    return keras.Model(x, [layers.Dense(1, name="b")(x), layers.Dense(1, name="a")(x)])


def test_results_have_names_in_their_order(keras_2):
    with IPUStrategy().scope():
        model = two_outputs()
        model.compile("sgd", "mse", metrics=["mae", keras.metrics.MeanSquaredError("square")])
        assert model.metrics_names == []
        results = model.evaluate(X, [Y, 2 * Y], batch_size=4, verbose=0)
        named = dict(zip(model.metrics_names, results, strict=True))
        outputs = [f"{output}_{name}" for output in "ba" for name in ("mae", "square")]
        assert list(named) == ["loss", "b_loss", "a_loss", *outputs]
        for output in "ab":
            assert named[f"{output}_square"] == pytest.approx(named[f"{output}_loss"])
        assert (model.input_names, model.output_names) == (["x"], ["b", "a"])


def test_a_sequential_has_ends_before_it_is_called(keras_2, notices):
    model = keras.Sequential(
        [keras.Input((4,), name="x"), layers.Dense(2), layers.Dropout(0.5, name="y")]
    )
    inner = keras.Model(model.input, [model.layers[0].output, model.output])
    np.testing.assert_array_equal(*inner(X))
    assert (model.input_names, model.output_names) == (["x"], ["y"])
    notices.once("`model.input`, `model.output` of a Sequential")


def test_functions_take_the_learning_phase(keras_2):
    model = keras.Sequential([keras.Input((4,)), layers.Dropout(0.5, seed=1)])
    function = K.function([model.input, K.learning_phase()], [model.output])
    np.testing.assert_array_equal(function([X, 0])[0], X)
    assert (function([X, 1])[0] == 0).any()


@pytest.mark.slow
def test_metrics_may_override_reset_states(keras_2):
    class Count(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="count")
            self.steps = self.add_weight("steps", initializer="zeros")
            self.total = self.add_weight("total", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.steps.assign_add(1.0)
            self.total.assign_add(1.0)

        def result(self):
            return self.steps + 100 * self.total

        def reset_states(self):
            self.steps.assign(0.0)

    model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[Count()])
    history = model.fit(X, Y, batch_size=4, epochs=2, verbose=0).history
    assert history["count"] == [202, 402]

    class All(Count):
        def reset_states(self):
            super(Count, self).reset_states()

    metric = All()
    metric.update_state(1, 1)
    metric.reset_state()
    assert float(metric.result()) == 0


def test_variables_of_optimizers_are_called_or_listed(keras_2):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    optimizer = keras.optimizers.Adam()
    optimizer._create_all_weights(model.trainable_variables)
    assert len(optimizer.variables) == 6
    assert [v.path for v in optimizer.variables()] == [v.path for v in optimizer.weights]
    assert len(optimizer.variables()) == 5


def test_variables_of_wrapped_optimizers_are_called(keras_2):
    optimizer = GradientAccumulationOptimizer(keras.optimizers.SGD(), 2)
    paths = [variable.path for variable in optimizer.variables]
    assert {variable.path for variable in optimizer.variables()} < {*paths}


def test_checkpoints_and_saved_models_hold_optimizers(keras_2, tmp_path):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(optimizer=model.optimizer, model=model)
    path = checkpoint.save(tmp_path / "checkpoint")
    checkpoint.restore(path).assert_consumed()
    tf.saved_model.save(model, str(tmp_path / "saved"))
    tf.saved_model.load(str(tmp_path / "saved"))


def test_schedules_get_the_step_as_a_float(keras_2, notices):
    class Warmup(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return tf.math.minimum(tf.math.rsqrt(step + 1), step * 0.5)

    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
        model.compile(keras.optimizers.SGD(Warmup()), "mse")
        model.fit(X, Y, batch_size=4, verbose=0)
        assert float(model.optimizer.learning_rate) == pytest.approx(3**-0.5)
    notices.once("a subclass of `LearningRateSchedule`")


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.slow
def test_a_checkpoint_each_period(keras_2, notices, tmp_path):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    path = str(tmp_path / "{epoch}.weights.h5")
    callback = keras.callbacks.ModelCheckpoint(path, save_weights_only=True, period=2)
    model.fit(X, Y, epochs=5, verbose=0, callbacks=[callback])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["2.weights.h5", "4.weights.h5"]
    notices.once("`ModelCheckpoint(period=)`")


def test_arguments_of_callbacks_and_layers(keras_2, notices):
    assert keras.callbacks.ReduceLROnPlateau(epsilon=0.5).min_delta == 0.5
    keras.callbacks.TensorBoard(write_grads=True, batch_size=3)
    keras.callbacks.ProgbarLogger(count_mode="steps")
    assert layers.AveragePooling2D()(tf.ones((1, 4, 4, 1))).shape == (1, 2, 2, 1)
    encoding = layers.CategoryEncoding(max_tokens=3, output_mode="binary")
    np.testing.assert_array_equal(encoding([0, 2]), [1, 0, 1])
    assert layers.Discretization(bins=[0.0, 1.0]).bin_boundaries == [0.0, 1.0]
    notices.once(
        "`ReduceLROnPlateau(epsilon=)`",
        "`TensorBoard(write_grads=",
        "`AveragePooling2D()`",
        "`CategoryEncoding(max_tokens=",
    )


def test_modules_are_attributes_of_keras(keras_2):
    assert keras.experimental.CosineDecay is keras.optimizers.schedules.CosineDecay


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.parametrize(
    ("kind", "monitor", "direction"),
    [
        (keras.callbacks.ModelCheckpoint, "val_my_accuracy_of_two", "max"),
        (keras.callbacks.ModelCheckpoint, "distance", "min"),
        (keras.callbacks.EarlyStopping, "val_my_auc", "max"),
        (keras.callbacks.EarlyStopping, "my_accuracy_of_two", "min"),
        (keras.callbacks.ReduceLROnPlateau, "my_accuracy_of_two", "max"),
    ],
)
def test_names_tell_whether_more_is_better(keras_2, notices, tmp_path, kind, monitor, direction):
    is_checkpoint = kind is keras.callbacks.ModelCheckpoint
    options = {"filepath": str(tmp_path / "a.keras")} if is_checkpoint else {}
    callback = kind(monitor=monitor, **options)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd")
    callback.set_model(model)
    callback.on_train_begin()
    callback.on_epoch_end(0, {monitor: 0.5})
    assert callback.mode == direction
    notices.once("`ModelCheckpoint(monitor=)`")


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.parametrize(
    "callback",
    [
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.5),
        keras.callbacks.ReduceLROnPlateau(monitor="loss"),
    ],
)
def test_logs_have_the_learning_rate_under_its_short_name(keras_2, callback):
    model = keras.Model()
    model.optimizer = keras.optimizers.SGD(0.5)
    callback.set_model(model)
    logs = {"loss": 1.0, "learning_rate_of_mine": 2.0}
    callback.on_epoch_end(0, logs)
    assert logs == {"loss": 1.0, "learning_rate_of_mine": 2.0, "lr": 0.5}


class Adversaries(keras.Model):
    """Two networks that train in a step, and no `call`."""

    def __init__(self):
        super().__init__()
        self.one, self.two = (keras.Sequential([keras.layers.Dense(3)]) for _ in range(2))

    def compile(self, optimizers):
        super().compile()
        self.optimizers = optimizers

    def train_step(self, data):
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((self.one(data) - self.two(data)) ** 2)
        for part, optimizer in zip((self.one, self.two), self.optimizers, strict=True):
            gradients = tape.gradient(loss, part.trainable_weights)
            optimizer.apply_gradients(zip(gradients, part.trainable_weights, strict=True))
        return {"loss": loss}


@pytest.mark.slow
def test_a_model_without_a_call_trains_by_its_step(keras_2, notices):
    with IPUStrategy(enable_keras_extensions=False).scope():
        model = Adversaries()
        model.compile([keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1)])
        losses = model.fit(X, batch_size=4, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    notices.once("`train_step` and without a `call`", "returns values under the names of metrics")
