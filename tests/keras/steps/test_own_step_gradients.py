"""Own steps of training whose gradients are added up over micro-batches and replicas."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.loop.step_checks import is_built_for
from ipu_tf.keras.steps.own_step_gradients import gradients_of_own_step
from tests.keras.equivalence import batches, check_weights, samples, strategy_of
from tests.keras.models_with_steps import AdversarialPair, Distiller, compiled
from tests.keras.small_models import CLASSES, FEATURES, sequential

tf_keras = pytest.importorskip("tf_keras")
pytest.importorskip("ipu_tf.keras.tf_keras.construction")  # Registers the adapters.

BATCH = samples(8)


def of_keras_3():
    return compiled_with(sequential(), keras.optimizers.SGD(0.1))


def of_tf_keras(optimizer=tf_keras.optimizers.SGD):
    layers = tf_keras.layers
    stack = [tf_keras.Input((FEATURES,)), layers.Dense(8), layers.Dense(CLASSES)]
    return compiled_with(tf_keras.Sequential(stack), optimizer(0.1))


def compiled_with(model, optimizer):
    model.compile(optimizer, "mse")
    return model


def gradients_by(model, update):
    """Gradients that a step holds, and those that it computed."""
    computed = []

    def step(batch):
        x, _ = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x)))
        computed.extend(tape.gradient(loss, model.trainable_variables))
        update(model.optimizer, computed, model.trainable_variables)
        return {"loss": loss}

    held, logs = gradients_of_own_step(adapter_of(model), step, BATCH)
    assert set(logs) == {"loss"}
    return held, computed


def in_pairs(optimizer, gradients, weights):
    optimizer.apply_gradients(zip(reversed(gradients), reversed(weights), strict=True))


def by_apply(optimizer, gradients, weights):
    optimizer.apply(gradients, weights)


def by_apply_alone(optimizer, gradients, weights):
    optimizer.build(weights)
    optimizer.apply(gradients)


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize(
    ("make", "update"),
    [
        (of_keras_3, in_pairs),
        (of_keras_3, by_apply),
        (of_keras_3, by_apply_alone),
        (of_tf_keras, in_pairs),
        (lambda: of_tf_keras(tf_keras.optimizers.legacy.Adam), in_pairs),
    ],
)
def test_updates_are_held_once_and_made_again_afterwards(make, update):
    model = make()
    before = model.get_weights()
    held, computed = gradients_by(model, update)
    assert len(held) == len(computed) == 4
    for one, other in zip(held, computed, strict=True):
        assert one is other
    for weight, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, other)
    pairs = zip(computed, model.trainable_variables, strict=True)
    model.optimizer.apply_gradients(pairs)
    assert any(np.any(one != other) for one, other in zip(model.get_weights(), before, strict=True))


def test_minimize_is_held():
    model = of_tf_keras()

    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch[0]))
        model.optimizer.minimize(loss, model.trainable_variables[:2], tape=tape)
        return {}

    held, _ = gradients_of_own_step(adapter_of(model), step, BATCH)
    assert [one is None for one in held] == [False, False, True, True]


def nothing(optimizer, gradients, weights):
    pass


def twice(optimizer, gradients, weights):
    in_pairs(optimizer, gradients, weights)
    in_pairs(optimizer, gradients, weights)


def one_weight_twice(optimizer, gradients, weights):
    in_pairs(optimizer, gradients[:1] * 2, weights[:1] * 2)


def a_foreign_weight(optimizer, gradients, weights):
    in_pairs(optimizer, gradients[:1], [tf.Variable(weights[0], name="foreign")])


@pytest.mark.parametrize(
    ("update", "received"),
    [
        (nothing, "no update. "),
        (twice, "updates by SGD, SGD. "),
        (one_weight_twice, "an update of '.*kernel.*', twice. "),
        (a_foreign_weight, "an update of 'foreign:0', which the model does not train. "),
    ],
)
def test_a_step_updates_each_weight_of_the_model_once(update, received):
    model = of_tf_keras()
    message = (
        f"`train_step` for the model {model.name} .*overridden.* once, .* Received: {received}"
    )
    with pytest.raises(RuntimeError, match=message):
        gradients_by(model, update)


def test_the_optimizer_of_an_update_is_that_of_compile():
    model = compiled(AdversarialPair)
    with pytest.raises(RuntimeError, match=r"updates by Adam, Adam, RMSprop\. .*extensions=False"):
        gradients_of_own_step(adapter_of(model), model.train_step, tf.constant(BATCH[0]))


@pytest.mark.slow
@pytest.mark.parametrize("ipus", [1, 2])
def test_own_steps_train_on_several_batches_as_stock_keras_on_one(ipus):
    """The sum over two replicas is the mean at half the rate."""
    data, loss = samples(48), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    stock = compiled(Distiller)
    stock.compile(keras.optimizers.SGD(0.1, 0.9), loss, metrics=["accuracy"])
    expected = stock.fit(batches(data, 8 * ipus), epochs=2, verbose=0).history
    with strategy_of(ipus).scope():
        ours = compiled(Distiller)
        rate = 0.1 / ipus
        ours.compile(
            keras.optimizers.SGD(rate, 0.9), loss, metrics=["accuracy"], steps_per_execution=2
        )
        ours.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=2, gradient_accumulation_reduction_method="mean"
        )
        ours.set_replication_options("MEAN")
        history = ours.fit(batches(data, 4), epochs=2, verbose=0).history
    check_weights(ours, stock)
    assert list(history) == list(expected)
    if ipus == 1:
        np.testing.assert_allclose(history["accuracy"], expected["accuracy"], rtol=1e-6)


def test_an_optimizer_is_built_before_its_updates_are_held():
    """Else the update would create its state, and first where figures alone are traced."""

    class Own(keras.Sequential):
        def train_step(self, batch):
            raise AssertionError(batch)

    with strategy_of(1).scope():
        model = Own([keras.Input((FEATURES,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1, 0.9), "mse", steps_per_execution=2)
        assert is_built_for(model, "train_step")
        model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=2)
        assert not is_built_for(model, "train_step")


def test_replicas_that_share_statistics_do_not_run_own_steps():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.norms.experimental.distributed_batch_norm_replica_group_size = 2
    cfg.configure_ipu_system()
    with IPUStrategy().scope():
        model = compiled(Distiller)
        with pytest.raises(RuntimeError, match=re.escape("batch normalization, 2 in a group.")):
            model.fit(batches(samples(16), 4), verbose=0)
    config.reset_ipu_configuration()
