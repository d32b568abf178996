"""Outfeeds that layers, losses, metrics and optimizers of a Keras model enqueue."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_tf.keras import PipelineStage

X = np.arange(48, dtype="f").reshape(16, 3) / 48
Y = np.arange(16, dtype="f").reshape(16, 1) / 16


class Peek(keras.layers.Layer):
    """Enqueues the mean of its input."""

    def __init__(self, queue):
        super().__init__()
        self._queue = queue

    def call(self, x):
        self._queue.enqueue({"mean": tf.reduce_mean(x)})
        return x


class Difference(keras.metrics.Mean):
    """Enqueues the sum of the targets."""

    def __init__(self, queue):
        super().__init__()
        self._queue = queue

    def update_state(self, y, prediction, sample_weight=None):
        self._queue.enqueue(tf.reduce_sum(y))
        return super().update_state(y - prediction)


class Descent(keras.optimizers.SGD):
    """Enqueues the sum of the gradient of the last kernel."""

    def __init__(self, queue):
        super().__init__(0.01)
        self._queue = queue

    def update_step(self, gradient, variable, *learning_rate):
        if tuple(variable.shape) == (4, 1):
            self._queue.enqueue(tf.reduce_sum(gradient))
        super().update_step(gradient, variable, *learning_rate)


def trained(ipus=1, micro_batches=1, stages=False, group=1, peeks=True):
    """Trains eight batches of two samples; returns what the parts of the model enqueued."""
    keras.utils.set_random_seed(3)
    cfg = IPUConfig()
    cfg.auto_select_ipus = ipus
    cfg.norms.experimental.distributed_batch_norm_replica_group_size = group
    cfg.configure_ipu_system()
    queues = {name: IPUOutfeedQueue() for name in ("layer", "loss", "metric", "optimizer")}

    def loss(y, prediction):
        value = tf.reduce_mean((y - prediction) ** 2)
        queues["loss"].enqueue(value)
        return value

    stage = PipelineStage if stages else lambda _: contextlib.nullcontext()
    try:
        with IPUStrategy().scope():
            inputs = keras.Input((3,))
            with stage(0):
                seen = Peek(queues["layer"])(inputs) if peeks else inputs
                hidden = keras.layers.Dense(4)(seen)
            with stage(1):
                outputs = keras.layers.Dense(1)(hidden)
            model = keras.Model(inputs, outputs)
            model.compile(
                Descent(queues["optimizer"]),
                loss,
                metrics=[Difference(queues["metric"])],
                steps_per_execution=8 // (1 if stages else ipus),
            )
            if stages:
                model.set_pipelining_options(micro_batches)
            elif micro_batches > 1:
                model.set_gradient_accumulation_options(micro_batches)
            data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2, drop_remainder=True)
            model.fit(data, verbose=0)
        return {name: queue.dequeue() for name, queue in queues.items() if queue.enqueued}
    finally:
        config.reset_ipu_configuration()


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("options", "replicas", "updates"),
    [
        ({}, 1, 8),
        pytest.param({"micro_batches": 4, "ipus": 2, "stages": True}, 1, 2, marks=pytest.mark.slow),
        pytest.param({"micro_batches": 2, "ipus": 2}, 2, 2, id="replicas"),
        pytest.param({"ipus": 2}, 2, 4, marks=pytest.mark.slow),
        pytest.param({"micro_batches": 4}, 1, 2, marks=pytest.mark.slow),
    ],
)
def test_each_part_of_a_model_enqueues_once_a_step_on_each_replica(options, replicas, updates):
    found = trained(**options)
    axis = (replicas,) if replicas > 1 else ()
    steps = (8 // replicas, *axis)
    np.testing.assert_allclose(
        found["layer"]["mean"], X.reshape(8, 6).mean(axis=1).reshape(steps), rtol=1e-6
    )
    np.testing.assert_allclose(
        found["metric"], Y.reshape(8, 2).sum(axis=1).reshape(steps), rtol=1e-6
    )
    assert found["loss"].shape == steps
    assert found["optimizer"].shape == (updates, *axis)
    if replicas > 1:
        np.testing.assert_array_equal(found["optimizer"][:, 0], found["optimizer"][:, 1])


@pytest.mark.slow
def test_losses_and_metrics_of_grouped_replicas_enqueue_on_each_replica():
    found = trained(ipus=4, micro_batches=1, group=2, peeks=False)
    alone = trained(ipus=4, micro_batches=1, peeks=False)
    assert {*found} == {*alone} == {"loss", "metric", "optimizer"}
    for name, values in found.items():
        assert values.shape == (2, 4)
        np.testing.assert_allclose(values, alone[name], rtol=1e-5, err_msg=name)


def test_a_layer_of_grouped_replicas_cannot_enqueue():
    with pytest.raises(ValueError, match="Received: distributed_batch_norm_replica_group_size=2"):
        trained(ipus=2, group=2)
