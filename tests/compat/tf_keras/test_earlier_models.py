"""The model classes of the vendor's earlier releases, for layers of tf_keras."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, compat
from ipu_tf.compat.tf_keras.earlier_steps import of_epoch
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.keras.data.epoch_steps import WHOLE_EPOCH

tf_keras = pytest.importorskip("tf_keras")


@pytest.fixture(scope="module")
def ipu():
    compat.install(keras=2)
    from tensorflow.python import ipu

    yield ipu
    compat.uninstall()


@pytest.fixture(scope="module")
def strategy():
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.ipu_model.tiles_per_ipu = 16
    config.configure_ipu_system()
    yield IPUStrategy()
    reset_ipu_configuration()


def dense(units, activation=None):
    constant = tf_keras.initializers.Constant(0.3)
    return tf_keras.layers.Dense(units, activation, kernel_initializer=constant)


def of_stages(ipu):
    stages = [[dense(4), dense(2, "tanh")], [dense(1)]]
    return ipu.keras.PipelineSequential(stages, gradient_accumulation_count=4)


def of_scopes(ipu):
    inputs = tf_keras.Input((3,), batch_size=2)
    with ipu.keras.PipelineStage(0):
        hidden = dense(2, "tanh")(dense(4)(inputs))
    with ipu.keras.PipelineStage(1):
        outputs = dense(1)(hidden)
    return ipu.keras.PipelineModel(
        inputs=inputs, outputs=outputs, gradient_accumulation_count=4, device_mapping=[0, 1]
    )


def of_layers(ipu):
    return ipu.keras.Sequential([dense(4)], 4)


def of_tensors(ipu):
    inputs = tf_keras.Input((3,), batch_size=2)
    return ipu.keras.Model(inputs, dense(4)(inputs), gradient_accumulation_count=4)


def batches():
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(16, 3)
    return tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(2, True)


@pytest.mark.slow
def test_an_execution_runs_the_steps_of_an_argument(ipu, strategy):
    with strategy.scope():
        model = of_stages(ipu)
        model.compile("sgd", "mse")
        model.fit(batches(), epochs=1, steps_per_run=1, verbose=0)
        with pytest.raises(ValueError, match=r"`steps_per_execution` \(12\)"):
            model.evaluate(batches().repeat(2), steps_per_run=3, verbose=0)
        assert model.predict(batches(), steps=1, verbose=0).shape == (8, 1)


@pytest.mark.slow
def test_steps_are_weight_updates(ipu, strategy):
    with strategy.scope():
        model = ipu.keras.Sequential([dense(2, "tanh"), dense(1)], accumulation_count=3)
        model.compile("sgd", "mse")
        today = tf_keras.Sequential([dense(2, "tanh"), dense(1)])
        today.set_gradient_accumulation_options(3)
        today.compile("sgd", "mse", steps_per_execution=3)
        # Each epoch reads the first six of eight batches.
        history = model.fit(batches(), epochs=2, steps_per_epoch=2, verbose=0)
        expected = today.fit(batches().take(6), epochs=2, verbose=0)
    assert history.history["loss"] == expected.history["loss"]
    assert model.optimizer.iterations.numpy() == 2  # Of two replicas.


@pytest.mark.slow
def test_samples_beyond_the_last_update_are_dropped(ipu, strategy, caplog):
    x = np.linspace(-1, 1, 51, dtype=np.float32).reshape(17, 3)
    with strategy.scope():
        model = ipu.keras.Sequential([dense(1)], 3)
        model.compile("sgd", "mse", metrics=["mae"])
        model.fit(x, x[:, :1], 2, epochs=1, verbose=0)
    assert model.optimizer.iterations.numpy() == 1
    assert "the last 5 of 17 samples are dropped" in caplog.text
    assert "a weight update takes 6 batches of 2 samples" in caplog.text


def test_every_epoch_reads_a_dataset_from_its_beginning():
    numbers = tf.data.Dataset.range(8)
    assert list(of_epoch(numbers, 3).as_numpy_iterator()) == [0, 1, 2]
    assert of_epoch(numbers.filter(lambda n: n > 1), 3).cardinality() == 3
    assert of_epoch(numbers, None) is numbers
    endless = numbers.repeat()
    assert of_epoch(endless, 3) is endless


def test_an_argument_has_one_of_its_names(ipu, strategy):
    message = "`accumulation_count` and `gradient_accumulation_count` cannot be used together"
    with strategy.scope(), pytest.raises(ValueError, match=message):
        ipu.keras.Sequential([dense(1)], 3, accumulation_count=3)


@pytest.mark.parametrize("made", [of_stages, of_scopes, of_layers, of_tensors])
def test_options_are_arguments(ipu, strategy, made):
    with strategy.scope():
        model = made(ipu)
        model.compile("sgd", "mse")
    state = model.ipu_training_state
    options = state.pipelining if made in (of_stages, of_scopes) else state.accumulation
    assert options.steps_per_replica == model.gradient_accumulation_count == 4
    assert model.steps_per_execution == WHOLE_EPOCH
    assert isinstance(model, tf_keras.Model)
    if made is of_stages:
        stages = [one.pipeline_stage for one in model.get_pipeline_stage_assignment()]
        assert stages == [0, 0, 1]


def test_stages_are_lists_of_layers(ipu, strategy):
    message = "PipelineSequential takes a list with a list of layers for each stage"
    with strategy.scope(), pytest.raises(ValueError, match=message):
        ipu.keras.SequentialPipelineModel([dense(1)], gradient_accumulation_count=4)


@pytest.mark.slow
@pytest.mark.parametrize("made", [of_stages, of_scopes])
def test_pipelined_models_train_as_those_of_today(ipu, strategy, made):
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(16, 3)
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(2, True)
    with strategy.scope():
        today = tf_keras.Sequential([dense(4), dense(2, "tanh"), dense(1)])
        today.set_pipeline_stage_assignment([0, 0, 1])
        today.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        today.compile("sgd", "mse", steps_per_execution=8)
        expected = today.fit(data, epochs=2, verbose=0)
        model = made(ipu)
        model.compile("sgd", "mse")
        history = model.fit(data, epochs=2, steps_per_epoch=2, prefetch_depth=2, verbose=0)
    assert history.history["loss"] == expected.history["loss"]


def test_a_class_is_functional_where_its_constructor_says_so(ipu, strategy):
    class Net(ipu.keras.Model):
        def __init__(self):
            inputs = tf_keras.Input((3,))
            super().__init__(inputs, dense(1)(inputs))

    class Doubled(ipu.keras.Model):
        def call(self, inputs):
            return 2 * inputs

    with strategy.scope():
        model, other = Net(), Doubled()
    assert type(model) is Net
    assert isinstance(model, tf_keras.Model)
    assert len(model.outputs) == 1
    assert other.outputs is None
    assert Doubled()(tf.constant(2.0)) == 4


@pytest.mark.slow
def test_models_of_a_class_train_as_those_of_layers(ipu, strategy):
    class Net(ipu.keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.last = dense(2, "tanh"), dense(1)

        def call(self, inputs):
            return self.last(self.hidden(inputs))

    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(16, 3)
    losses = []
    with strategy.scope():
        for model in (Net(), tf_keras.Sequential([dense(2, "tanh"), dense(1)])):
            model.compile("sgd", "mse", steps_per_execution=4)
            history = model.fit(x, x[:, :1], batch_size=2, shuffle=False, epochs=2, verbose=0)
            losses.append(history.history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-6)
