"""Pipelines in mixed precision: the loss is scaled, and every stage leaves out what overflows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.keras.optimizers import ALSOptimizer
from ipu_tf.ops.pipelining_ops import PipelineSchedule
from tests.grids import mostly_slow
from tests.keras.equivalence import BATCH, ScaledLoss, batches, samples
from tests.keras.small_models import CLASSES, FEATURES, loss_scaling_of

G = 4
UPDATES = 4
OVERFLOWING_SCALE = 2.0**20


class Counting(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that falls with the updates, which it counts itself."""

    def __init__(self):
        self.count = tf.Variable(1.0, trainable=False)

    def __call__(self, step):
        rate = 0.05 / self.count
        self.count.assign_add(1.0)
        return rate


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05),
    "clipped": lambda: keras.optimizers.Adam(0.01, global_clipnorm=1.0),
    "averaged": lambda: keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=2),
    "counting": lambda: keras.optimizers.SGD(Counting()),
    "accumulating": lambda: keras.optimizers.SGD(0.05, gradient_accumulation_steps=2),
}


@pytest.fixture(autouse=True)
def _policy():
    previous = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    yield
    keras.mixed_precision.set_global_policy(previous)
    config.reset_ipu_configuration()


def two_layers():
    keras.utils.set_random_seed(7)
    hidden = keras.layers.Dense(8, activation="tanh")  # Smooth: roundings make no large steps.
    return keras.Sequential([keras.Input((FEATURES,)), hidden, keras.layers.Dense(CLASSES)])


def ipus(count):
    """A strategy on so many IPUs, where what overflows is no number, as in stock TensorFlow."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = count
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.floating_point_behaviour.nanoo = True
    cfg.configure_ipu_system()
    return IPUStrategy()


def in_two_stages(optimizer, micro_batches=G, **options):
    """A trained model, and the pipeline that it was."""
    strategy = ipus(2)
    with strategy.scope():
        model = two_layers()
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(micro_batches, **options)
        fitted(model, optimizer)
    return model, strategy.report().programs[0].device


def fitted(model, optimizer, *, factor=1, size=BATCH, steps=G * UPDATES):
    model.compile(optimizer=optimizer, loss=ScaledLoss(factor), steps_per_execution=steps)
    data = batches(samples(BATCH * G * UPDATES), size)
    model.fit(data, shuffle=False, verbose=0)
    return model


def check_each_stage_updates_its_own_weights(pipeline):
    assert all(stage.update_cycles > 0 for stage in pipeline.stages)
    # Numbers go between stages for an update, such as the scale, but no weight.
    assert max(c.bytes for c in pipeline.crossings if c.phase == "update") <= 8


@pytest.mark.parametrize("name", mostly_slow(list(OPTIMIZERS), fast=["clipped", "accumulating"]))
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_two_stages_train_as_stock_keras(name):
    def scaled():
        return keras.mixed_precision.LossScaleOptimizer(OPTIMIZERS[name](), initial_scale=2.0**10)

    ours, pipeline = in_two_stages(scaled())
    stock = fitted(two_layers(), scaled(), factor=G, size=G * BATCH, steps=1)
    for our_weight, stock_weight in zip(ours.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_allclose(our_weight, stock_weight, atol=1e-3)
    updates = int(stock.optimizer.inner_optimizer.iterations)
    assert int(ours.optimizer.inner_optimizer.iterations) == updates
    check_each_stage_updates_its_own_weights(pipeline)


@pytest.mark.slow
def test_updates_that_overflow_are_left_out_in_every_stage():
    def scaled():
        inner = keras.optimizers.SGD(0.05)
        return keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=OVERFLOWING_SCALE)

    sequential = PipelineSchedule.Sequential  # The only one that trains single batches.
    ours, pipeline = in_two_stages(scaled(), 1, pipeline_schedule=sequential)
    stock = fitted(two_layers(), scaled(), steps=1)
    for our_weight, stock_weight in zip(ours.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_allclose(our_weight, stock_weight, atol=1e-3)
    updates = int(ours.optimizer.inner_optimizer.iterations)
    assert updates == int(stock.optimizer.inner_optimizer.iterations)
    scale, _ = loss_scaling_of(ours.optimizer)
    assert scale == loss_scaling_of(stock.optimizer)[0] < OVERFLOWING_SCALE
    check_each_stage_updates_its_own_weights(pipeline)


@pytest.mark.slow
def test_adaptive_loss_scaling_over_two_stages():
    def scaled():
        inner = keras.optimizers.SGD(0.05)
        return ALSOptimizer(inner, initial_loss_scaling_factor=8.0, update_frequency=2)

    ours, _ = in_two_stages(scaled())
    with ipus(1).scope():
        alone = two_layers()
        alone.set_gradient_accumulation_options(G)
        fitted(alone, scaled())
    for our_weight, lone in zip(ours.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_array_equal(our_weight, lone)
    assert float(ours.optimizer.loss_scaling_factor) == float(alone.optimizer.loss_scaling_factor)
