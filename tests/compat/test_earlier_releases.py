"""Names and arguments of the vendor's earlier releases."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.compat.earlier_steps import of_epoch
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_tf.keras.data.epoch_steps import WHOLE_EPOCH

pytestmark = pytest.mark.usefixtures("vendor_names")


@pytest.fixture(scope="module")
def strategy():
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.ipu_model.tiles_per_ipu = 16
    config.configure_ipu_system()
    yield IPUStrategy()
    reset_ipu_configuration()


def batches():
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(16, 3)
    return tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(2, True)


def dense(units, activation=None):
    return keras.layers.Dense(
        units, activation, kernel_initializer=keras.initializers.Constant(0.3)
    )


def of_stages():
    from tensorflow.python import ipu

    return ipu.keras.PipelineSequential(
        [[dense(4), dense(2, "tanh")], [dense(1)]], gradient_accumulation_count=4
    )


def of_scopes():
    from tensorflow.python import ipu

    inputs = keras.Input((3,), batch_size=2)
    with ipu.keras.PipelineStage(0):
        hidden = dense(2, "tanh")(dense(4)(inputs))
    with ipu.keras.PipelineStage(1):
        outputs = dense(1)(hidden)
    return ipu.keras.PipelineModel(
        inputs=inputs, outputs=outputs, gradient_accumulation_count=4, device_mapping=[0, 1]
    )


@pytest.fixture(scope="module")
def losses(strategy):
    """Losses of two epochs of today's pipelined model."""
    with strategy.scope():
        model = keras.Sequential([dense(4), dense(2, "tanh"), dense(1)])
        model.set_pipeline_stage_assignment([0, 0, 1])
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.compile("sgd", "mse", steps_per_execution=8)
        return model.fit(batches(), epochs=2, verbose=0).history["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("made", [of_stages, of_scopes])
def test_pipelined_models_train_as_those_of_today(strategy, losses, made, caplog):
    with strategy.scope():
        model = made()
        model.compile("sgd", "mse")
        history = model.fit(batches(), epochs=2, steps_per_epoch=2, prefetch_depth=2, verbose=0)
    assert history.history["loss"] == losses
    assert "steps_per_execution" not in caplog.text


@pytest.mark.slow
def test_an_execution_runs_the_steps_of_an_argument(strategy):
    with strategy.scope():
        model = of_stages()
        model.compile("sgd", "mse")
        model.fit(batches(), epochs=1, steps_per_run=1, verbose=0)
        with pytest.raises(ValueError, match=r"`steps_per_execution` \(12\)"):
            model.evaluate(batches().repeat(2), steps_per_run=3, verbose=0)
        assert model.predict(batches(), steps=1, verbose=0).shape == (8, 1)


def with_arguments(ipu, kind, layers):
    """A model with arguments of its own, and the same one with the options of today."""
    if kind == "sequential":
        return ipu.keras.Sequential(layers, accumulation_count=3)
    inputs = keras.Input((3,), batch_size=2)
    outputs = layers[1](layers[0](inputs))
    arguments = {"gradient_accumulation_count": 3, "gradient_accumulation_dtype": "float32"}
    return ipu.keras.Model(inputs, outputs, **arguments, layer_replacement=True, name="net")


@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_accumulation_is_an_argument_of_models(strategy, kind):
    from tensorflow.python import ipu

    with strategy.scope():
        model = with_arguments(ipu, kind, [dense(2), dense(1)])
        model.compile("sgd", "mse")
    assert model.ipu_training_state.accumulation.steps_per_replica == 3
    assert model.steps_per_execution == WHOLE_EPOCH
    assert isinstance(model, ipu.keras.Sequential if kind == "sequential" else ipu.keras.Model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_steps_are_weight_updates(strategy, kind):
    from tensorflow.python import ipu

    with strategy.scope():
        model = with_arguments(ipu, kind, [dense(2, "tanh"), dense(1)])
        model.compile("sgd", "mse")
        today = keras.Sequential([dense(2, "tanh"), dense(1)])
        today.set_gradient_accumulation_options(3)
        today.compile("sgd", "mse", steps_per_execution=3)
        # Each epoch reads the first six of eight batches.
        history = model.fit(batches(), epochs=2, steps_per_epoch=2, verbose=0)
        expected = today.fit(batches().take(6), epochs=2, verbose=0)
    assert history.history["loss"] == expected.history["loss"]
    assert model.optimizer.iterations.numpy() == 2  # Of two replicas.


@pytest.mark.slow
def test_samples_beyond_the_last_update_are_dropped(strategy, caplog):
    from tensorflow.python import ipu

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


def test_an_argument_has_one_of_its_names(strategy):
    from tensorflow.python import ipu

    message = "`accumulation_count` and `gradient_accumulation_count` cannot be used together"
    with strategy.scope(), pytest.raises(ValueError, match=message):
        ipu.keras.Sequential([dense(1)], 3, accumulation_count=3)


@pytest.mark.slow
def test_models_of_a_class_are_as_today(strategy):
    from tensorflow.python import ipu

    class Doubled(ipu.keras.Model):
        def call(self, inputs):
            return 2 * inputs

    with strategy.scope():
        model = Doubled()
        model.compile()
        assert np.all(model.predict(np.ones((4, 3), np.float32), 2, verbose=0) == 2)


def test_models_have_the_stages_and_options_of_their_arguments(strategy):
    with strategy.scope():
        model = of_stages()
        model.compile("sgd", "mse")
    stages = [one.pipeline_stage for one in model.get_pipeline_stage_assignment()]
    assert (type(model).__name__, stages) == ("PipelineSequential", [0, 0, 1])
    assert model.steps_per_execution == WHOLE_EPOCH
    with strategy.scope(), pytest.raises(TypeError, match="gradient_accumulation_counts"):
        type(model)([[dense(1)], [dense(1)]], gradient_accumulation_counts=4)


@pytest.mark.parametrize("stages", [[], [dense(1)], "layers"])
def test_stages_are_lists_of_layers(strategy, stages):
    from tensorflow.python.ipu.keras import SequentialPipelineModel

    message = "PipelineSequential takes a list with a list of layers for each stage"
    with strategy.scope(), pytest.raises(ValueError, match=message):
        SequentialPipelineModel(stages, gradient_accumulation_count=4)


def test_feeds_take_their_names_by_position():
    numbers = tf.data.Dataset.range(4).map(lambda i: tf.cast(i, tf.float32))
    IPUInfeedQueue(numbers, "numbers", 0, replication_factor=2, data_to_prefetch=2)
    queue = IPUOutfeedQueue("results", IPUOutfeedMode.LAST, replication_factor=2, io_batch_size=2)
    assert not queue.enqueued
    assert not IPUOutfeedQueue(feed_name="results").enqueued


def test_no_graph_is_sharded_by_itself():
    from tensorflow.python.ipu.autoshard import automatic_sharding

    with pytest.raises(NotImplementedError, match=r"`autoshard\.automatic_sharding` does not"):
        automatic_sharding(2, None, None)
