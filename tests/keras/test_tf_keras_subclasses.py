"""Subclasses of tf_keras' models, and steps of their own, in the scope of a strategy."""

import contextlib
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.keras.tf_keras_training import (
    TOKENS,
    X,
    Y,
    check_equal,
    check_equal_weights,
    functional,
    strategy_of,
    trained,
)

tf_keras = pytest.importorskip("tf_keras")

layers = tf_keras.layers
LOSS = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Net(tf_keras.Model):
    """Its `call` has control flow over tensors."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(8, activation="relu")
        self.normalised = layers.BatchNormalization()
        self.last = layers.Dense(3)

    def call(self, inputs, training=False):
        hidden = self.normalised(self.hidden(inputs), training=training)
        if tf.reduce_max(hidden) > 0.5:  # Far from rounding: the mean of `hidden` is 0.
            hidden *= 2.0
        return self.last(hidden)


class Extended(Net):
    """Its step of training adds to that of tf_keras."""

    def train_step(self, data):
        return {**super().train_step(data), "rows": tf.constant(3.0)}


class OwnSteps(tf_keras.Model):
    """Its steps are its own, and the gradient of its table is a list of rows."""

    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(10, 6)
        self.last = layers.Dense(3)
        self.mean = tf_keras.metrics.Mean("mean")

    def call(self, tokens):
        return self.last(tf.reduce_mean(self.table(tokens), axis=1))

    def train_step(self, data):
        tokens, labels = data
        with tf.GradientTape() as tape:
            outputs = self(tokens, training=True)
            loss = self.compiled_loss(labels, outputs, regularization_losses=self.losses)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.logs(labels, outputs)

    def test_step(self, data):
        tokens, labels = data
        outputs = self(tokens, training=False)
        self.compiled_loss(labels, outputs)
        return self.logs(labels, outputs)

    def predict_step(self, tokens):
        return {"softmax": tf.nn.softmax(self(tokens))}

    def logs(self, labels, outputs):
        self.mean.update_state(outputs)
        self.compiled_metrics.update_state(labels, outputs)
        return {metric.name: metric.result() for metric in self.metrics}


class Functional(tf_keras.Model):
    """Its constructor makes it functional."""

    def __init__(self):
        inputs = tf_keras.Input((6,))
        super().__init__(inputs, layers.Dense(3)(layers.Dense(4, activation="relu")(inputs)))


class Doubled(tf_keras.Sequential):
    """Its loss is its own."""

    def __init__(self):
        super().__init__([layers.Dense(4, activation="relu"), layers.Dense(3)])

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
        return 2.0 * super().compute_loss(x, y, y_pred, sample_weight)


class Pair(tf_keras.Model):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.hidden, self.last = layers.Dense(8, activation="relu"), layers.Dense(3)

    def call(self, inputs):
        return self.last(self.hidden(inputs))


class Weighted(tf_keras.optimizers.legacy.SGD):
    """A script's optimizer: its gradients are doubled before they are applied."""

    def apply_gradients(self, grads_and_vars, name=None, **kwargs):
        doubled = [(2.0 * gradient, variable) for gradient, variable in grads_and_vars]
        return super().apply_gradients(doubled, name=name, **kwargs)


KINDS = {cls.__name__: cls for cls in (Net, Extended, OwnSteps, Functional, Doubled)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_subclass_trains_evaluates_and_predicts_as_in_stock_tf_keras(kind):
    x = TOKENS if kind is OwnSteps else X
    how = {"x": x, "batch_size": 8, "epochs": 2, "validation_data": (x[:16], Y[:16])}
    make = tf_keras.optimizers.Adam if kind is OwnSteps else tf_keras.optimizers.SGD
    strategy = strategy_of()
    ours = trained(strategy, kind, make, steps=2, **how)
    stock = trained(None, kind, make, **how)
    check_equal(ours, stock)
    model = ours[0]
    assert model.__class__ is kind
    assert type(model) is not kind
    predictions = [one.predict(x, batch_size=8, verbose=0) for one in (model, stock[0])]
    for leaves in zip(*map(tf.nest.flatten, predictions), strict=True):
        np.testing.assert_allclose(*leaves, rtol=1e-4, atol=1e-6)
    names = {program.name for program in strategy.report(insights=False).programs}
    assert names == {f"{model.name}.{step}_step" for step in ("train", "test", "predict")}


@pytest.mark.slow
def test_the_gradients_of_a_subclass_are_accumulated_for_a_scripts_optimizer():
    def setup(model):
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=2, gradient_accumulation_reduction_method="mean"
        )
        model.set_replication_options("MEAN")

    how = {"shuffle": False, "epochs": 2}
    ours, _ = trained(
        strategy_of(2), Pair, lambda: Weighted(0.05), setup=setup, steps=6, batch_size=4, **how
    )
    stock, _ = trained(None, Pair, lambda: Weighted(0.05 * 2), batch_size=16, **how)
    for weight, other in zip(ours.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_own_train_steps_of_micro_batches_and_replicas_are_those_of_a_batch():
    """The sum over two replicas is the mean at half the rate."""

    def setup(model):
        model.set_gradient_accumulation_options(2, gradient_accumulation_reduction_method="mean")

    how = {"x": TOKENS, "shuffle": False, "epochs": 2}
    make = tf_keras.optimizers.SGD
    ours, _ = trained(
        strategy_of(2), OwnSteps, lambda: make(0.05), setup=setup, steps=6, batch_size=4, **how
    )
    stock, _ = trained(None, OwnSteps, lambda: make(0.1), batch_size=16, **how)
    for part in ("table", "last"):  # The sums of the metric are each replica's.
        check_equal_weights(getattr(ours, part), getattr(stock, part))


def test_a_subclass_without_call_is_refused():
    class Empty(tf_keras.Model):
        pass

    with strategy_of().scope():
        model = Empty(name="empty")
        model.compile("sgd", "mse")
        with pytest.raises(NotImplementedError, match="Model 'empty' does not implement `call`"):
            model.fit(X, Y)


def test_outside_of_scopes_classes_are_stock():
    assert type(Pair()) is Pair
    with strategy_of().scope():
        converted = functional()
    assert type(functional()) is converted.__class__


class TwoOutputs(tf_keras.Model):
    """Its outputs have names."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(8, activation="relu")
        self.first, self.second = layers.Dense(3), layers.Dense(1)

    def call(self, inputs):
        hidden = self.hidden(inputs)
        return {"a": self.first(hidden), "b": self.second(hidden)}


def in_scope_of(strategy):
    return strategy.scope() if strategy else contextlib.nullcontext()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metrics", "names"),
    [
        ({"a": "accuracy", "b": "mae"}, {"a_accuracy", "b_mae"}),
        (["mae"], {"a_mae", "b_mae"}),
    ],
    ids=["by name", "flat"],
)
def test_outputs_of_a_subclass_have_metrics_and_weights_by_name(metrics, names):
    def run(strategy):
        with in_scope_of(strategy):
            tf_keras.utils.set_random_seed(3)
            model = TwoOutputs()
            losses = {"a": LOSS, "b": "mse"}
            model.compile("sgd", losses, metrics=metrics)
            weights = {"a": np.linspace(0.5, 1.5, 48), "b": np.ones(48)}
            how = {"sample_weight": weights, "shuffle": False, "batch_size": 8, "verbose": 0}
            logs = model.fit(X, {"a": Y, "b": X[:, :1]}, **how).history
        return model, logs

    ours, stock = run(strategy_of()), run(None)
    check_equal(ours, stock)
    assert set(stock[1]) == {"loss", "a_loss", "b_loss"} | names


@pytest.mark.slow
@pytest.mark.parametrize("is_legacy", [False, True], ids=["built for both", "legacy"])
def test_one_optimizer_trains_two_models(is_legacy):
    optimizers = tf_keras.optimizers.legacy if is_legacy else tf_keras.optimizers

    def run(strategy):
        with in_scope_of(strategy):
            tf_keras.utils.set_random_seed(3)
            models = [Pair(), Pair()]
            for model in models:
                model.build((None, 6))
            optimizer = optimizers.Adam(0.01)
            if not is_legacy:
                optimizer.build([one for model in models for one in model.trainable_variables])
            for model in (*models, models[0]):
                model.compile(optimizer, LOSS)
                model.fit(X, Y, batch_size=8, shuffle=False, verbose=0)
        assert int(optimizer.iterations) == 18
        return models

    for ours, stock in zip(run(strategy_of()), run(None), strict=True):
        check_equal_weights(ours, stock)


class Adversarial(tf_keras.Model):
    """Two models and two optimizers, one of which computes its gradients itself."""

    def __init__(self):
        super().__init__()
        self.judge = tf_keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])
        self.maker = tf_keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(6)])
        self.judge_loss = tf_keras.metrics.Mean("judge_loss")
        self.maker_loss = tf_keras.metrics.Mean("maker_loss")

    def compile(self, judge_optimizer, maker_optimizer, loss_function, **how):
        super().compile(**how)
        self.judge_optimizer, self.maker_optimizer = judge_optimizer, maker_optimizer
        self.loss_function = loss_function

    @property
    def metrics(self):
        return [self.judge_loss, self.maker_loss]

    def train_step(self, data):
        real, noise = data
        labels = tf.concat([tf.ones((8, 1)), tf.zeros((8, 1))], axis=0)
        both = tf.concat([real, self.maker(noise)], axis=0)
        with tf.GradientTape() as tape:
            judge_loss = self.loss_function(labels, self.judge(both))
        weights = self.judge.trainable_weights
        gradients = tape.gradient(judge_loss, weights)
        self.judge_optimizer.apply_gradients(zip(gradients, weights, strict=True))
        with tf.GradientTape() as tape:
            maker_loss = self.loss_function(tf.ones((8, 1)), self.judge(self.maker(noise)))
        self.maker_optimizer.minimize(maker_loss, self.maker.trainable_weights, tape=tape)
        self.judge_loss.update_state(judge_loss)
        self.maker_loss.update_state(maker_loss)
        return {metric.name: metric.result() for metric in self.metrics}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["new", "legacy"])
def test_an_adversarial_pair_trains_by_two_optimizers(kind):
    def run(strategy):
        with in_scope_of(strategy):
            tf_keras.utils.set_random_seed(3)
            model = Adversarial()
            of_kind = tf_keras.optimizers if kind == "new" else tf_keras.optimizers.legacy
            optimizers = of_kind.Adam(0.01), of_kind.Adam(0.02)
            loss = tf_keras.losses.BinaryCrossentropy(from_logits=True)
            model.compile(*optimizers, loss, steps_per_execution=2 if strategy else 1)
            how = {"shuffle": False, "batch_size": 8, "epochs": 3, "verbose": 0}
            first = model.train_on_batch(X[:8], X[8:16], return_dict=True)
            logs = model.fit(X, X[::-1].copy(), **how).history
            logs |= {f"first {name}": value for name, value in first.items()}
        assert [int(one.iterations) for one in optimizers] == [19, 19]
        return model, logs

    check_equal(run(strategy_of()), run(None))


def test_losses_that_a_script_calls_are_means_where_there_is_one_replica(monkeypatch):
    loss = tf_keras.losses.MeanSquaredError()
    with strategy_of().scope():
        assert float(loss([[1.0], [3.0]], [[3.0], [3.0]])) == 2.0
    message = "Please use `tf.keras.losses.Reduction.SUM`"
    strategy = strategy_of()
    several = property(lambda extended: 2)
    monkeypatch.setattr(type(strategy.extended), "_num_replicas_in_sync", several)
    with strategy.scope(), pytest.raises(ValueError, match=message):
        loss([[1.0]], [[3.0]])


class Looked(tf_keras.Model):
    """Two inputs, of which one holds numbers of rows of a table."""

    def __init__(self):
        super().__init__()
        self.dense, self.table = layers.Dense(3), layers.Embedding(7, 3)

    def call(self, inputs):
        x, rows = inputs
        self.types = x.dtype, rows.dtype
        return self.dense(x) + self.table(rows)


def test_inputs_build_a_subclass_for_their_shapes_and_types():
    with strategy_of().scope():
        model = Looked()
        model.build([tf_keras.Input((4,)), tf_keras.Input((), dtype="int32")])
        assert [weight.shape for weight in model.weights] == [(4, 3), (3,), (7, 3)]
        assert model.types == (tf.float32, tf.int32)
        x, rows = np.ones((6, 4), np.float32), np.arange(6, dtype=np.int32)
        model.compile()
        expected = model((x, rows)).numpy()
        np.testing.assert_allclose(model.predict([x, rows], batch_size=2), expected, rtol=1e-6)


@pytest.mark.slow
def test_sizes_of_layers_may_be_floats():
    def build():
        return tf_keras.Sequential(
            [layers.Reshape((6, 1)), layers.Conv1D(4.0, 3), layers.Flatten(), layers.Dense(3.0)]
        )

    how = {"batch_size": 8, "shuffle": False}
    ours = trained(strategy_of(), build, tf_keras.optimizers.SGD, **how)
    check_equal(ours, trained(None, build, tf_keras.optimizers.SGD, **how))


@pytest.mark.slow
def test_a_subclass_loads_without_its_class_and_its_weights_from_any_file(tmp_path):
    strategy = strategy_of()
    how = {"batch_size": 8}
    ours, _ = trained(strategy, Pair, tf_keras.optimizers.SGD, **how)
    ours.save(tmp_path / "saved_model")
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            loaded = tf_keras.models.load_model(tmp_path / "saved_model")
            check_equal_weights(loaded, ours)
            loaded.fit(X, Y, verbose=0, **how)
            assert loaded.predict(X[:8], verbose=0, **how).shape == (8, 3)
    assert loaded.__class__.__name__ == "Pair"
    other, _ = trained(strategy_of(), Pair, tf_keras.optimizers.SGD, **how)
    tf.train.Checkpoint(model=ours).write(tmp_path / "checkpoint")
    tf.train.Checkpoint(model=other).read(tmp_path / "checkpoint").assert_consumed()
    check_equal_weights(other, ours)
    for name in ("weights", "weights.h5"):
        ours.save_weights(tmp_path / name)
        stock = Pair()
        stock.build((None, 6))
        stock.load_weights(tmp_path / name)
        check_equal_weights(stock, ours)


@pytest.mark.slow
def test_callbacks_beside_the_device_are_not_said_to_be_slow(caplog):
    class Slow(tf_keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            time.sleep(0.02)

    def setup(model):
        model.set_asynchronous_callbacks(True)

    how = {"setup": setup, "steps": 6, "batch_size": 8, "epochs": 2, "callbacks": [Slow()]}
    trained(strategy_of(), Pair, tf_keras.optimizers.SGD, **how)
    assert "is slow compared to the batch time" not in caplog.text
