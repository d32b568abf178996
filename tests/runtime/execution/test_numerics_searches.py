"""Gradients that loss scaling handles, and gradients with values that become 0, are named."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config, ipu_infeed_queue, loops
from ipu_tf.keras.loop import jitting
from ipu_tf.keras.optimizers import ALSOptimizer
from ipu_tf.ops import cross_replica_ops
from ipu_tf.runtime.execution import replay_calls

SMALL = 2.0**-14


@pytest.fixture(autouse=True)
def after():
    yield
    config.reset_ipu_configuration()


def configure(ipus=1, **simulator):
    cfg = IPUConfig()
    cfg.auto_select_ipus = ipus
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.floating_point_behaviour.nanoo = True
    for name, value in simulator.items():
        setattr(cfg.simulator, name, value)
    cfg.configure_ipu_system()


def found_in(strategy):
    (program,) = strategy.report(insights=False).programs
    return program.nonfinite


def stepping(optimizer, factor, dtype=tf.float16):
    """A step whose gradients are `factor` times the loss scale, and its variable."""
    weight = keras.Variable(np.ones(4, np.float32), name="weight")
    optimizer.build([weight])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape, tf.name_scope("block"):
            y = tf.cast(weight.value, dtype) * tf.cast(x, dtype) * tf.constant(factor, dtype)
            loss = optimizer.scale_loss(tf.cast(tf.reduce_sum(y), tf.float32))
        (gradient,) = tape.gradient(loss, [weight.value])
        optimizer.apply([gradient], [weight])
        return loss

    return step, weight


def trained(make, factor, x=1.0, steps=3):
    strategy = IPUStrategy()
    with strategy.scope():
        optimizer = make(keras.optimizers.SGD(1e-3))
        step, weight = stepping(optimizer, factor)
        losses = [
            strategy.run(step, args=(tf.fill([4], tf.constant(x, tf.float32)),))
            for _ in range(steps)
        ]
    return found_in(strategy), weight.numpy(), optimizer, np.array(losses)


def scaling(scale):
    return lambda inner: keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=scale)


def test_an_overflow_that_loss_scaling_handles_is_named_and_ends_nothing():
    configure(trace_numerics=True)
    (found,), weight, optimizer, losses = trained(scaling(32768.0), 4.0)
    assert (found.fault, found.handled, found.run, found.loss_scale) == ("overflow", True, 1, 32768)
    assert "gradient_tape/block" in found.op
    assert "loss scale 32,768: the first gradient that overflows is of" in str(found)
    assert float(optimizer.dynamic_scale) == 8192.0
    assert np.isfinite(losses).all()
    assert (weight < 1.0).all()


@pytest.mark.slow
def test_searches_change_nothing():
    configure()
    nothing, stock, _, _ = trained(scaling(32768.0), 4.0)
    assert not nothing
    configure(trace_underflow=True)
    found, weight, _, _ = trained(scaling(32768.0), 4.0)
    assert [one.handled for one in found] == [True]
    np.testing.assert_array_equal(weight, stock)


@pytest.mark.slow
def test_a_cast_that_gives_nan_on_overflow_overflows():
    configure(trace_numerics=True)

    @tf.function
    def step(x):
        return tf.cast(x * 4.0, tf.float16) + 1.0

    strategy = IPUStrategy(enable_keras_extensions=False)
    strategy.run(step, args=(tf.constant([1.0, 3e4]),))
    (found,) = found_in(strategy)
    assert (found.fault, found.op_type, found.nan_op) == ("overflow", "Cast", "")
    assert found.results[0].nans == 1
    assert found.what_to_do.startswith("hold it in float32")


@pytest.mark.slow
def test_values_that_are_not_finite_without_a_scale_are_no_matter_of_loss_scaling():
    configure(trace_numerics=True)
    found, *_ = trained(scaling(1.0), 1.0, x=np.nan, steps=1)
    assert [one.fault for one in found] == ["from outside"]
    assert not any(one.handled for one in found)


@pytest.mark.slow
def test_automatic_loss_scaling_has_its_scale_in_the_message():
    configure(trace_numerics=True)
    found, *_ = trained(
        lambda inner: ALSOptimizer(inner, initial_loss_scaling_factor=8192), 80.0, steps=1
    )
    assert [(one.fault, one.handled, one.loss_scale) for one in found] == [
        ("overflow", False, 8192)
    ]
    assert "lower the loss scale" in found[0].what_to_do


def test_the_first_gradient_that_flushes_to_zero_is_named():
    configure(trace_underflow=True)
    (found,), *_ = trained(scaling(2.0), SMALL, x=SMALL)
    assert (found.fault, found.run, found.lost, found.loss_scale) == ("underflow", 1, 4, 2.0)
    assert (found.op_type, found.layer) == ("Mul", "block")
    assert found.around == (2.0**-27,) * 4
    assert (found.factor, found.kept) == (8.0, 4)
    assert "raise the loss scale: 8 times as large, 16, it keeps 4 of them" in str(found)


@pytest.mark.slow
def test_gradients_that_keep_their_values():
    configure(trace_underflow=True)
    found, *_ = trained(scaling(1024.0), SMALL, x=SMALL)
    assert not found


def fitted(size, scale, micro_batches=1, **options):
    """The faults of training a small network of mixed types on values of a size."""
    with IPUStrategy().scope():
        keras.utils.set_random_seed(1)
        layers = [
            keras.layers.Dense(8, name="first", dtype="mixed_float16"),
            keras.layers.Dense(4, name="last", dtype="mixed_float16"),
            keras.layers.Activation("linear", dtype="float32"),
        ]
        model = keras.Sequential([keras.Input((4,)), *layers], name="net")
        model.compile(scaling(scale)(keras.optimizers.SGD(0.0)), "mse", **options)
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=micro_batches
        )
        x = np.full((8, 4), 1.0, np.float32)
        history = model.fit(x, np.full((8, 4), size, np.float32), batch_size=4, verbose=0)
        return found_in(model.distribute_strategy), history.history["loss"]


@pytest.mark.slow
def test_fit_names_the_gradient_that_flushes_to_zero():
    configure(trace_underflow=True)
    (found,), _ = fitted(1.0, 2.0**-22)
    assert (found.fault, found.loss_scale) == ("underflow", 2.0**-22)
    assert (found.layer, found.op_type, found.superstep) == ("net", "Cast", "convert")
    assert (found.tiles, found.tile) == (1, 0)
    assert found.kept == found.lost > 0


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "micro_batches"), [(1, 1), (2, 1), (2, 2)])
def test_fit_goes_on_after_an_overflow_that_loss_scaling_handles(steps, micro_batches):
    configure(trace_numerics=True)
    (found,), losses = fitted(1000.0, 2.0**15, micro_batches, steps_per_execution=steps)
    assert found.handled
    assert found.loss_scale == 2.0**15
    assert np.isfinite(losses).all()


@pytest.mark.slow
def test_programs_with_feeds_are_searched_for_gradients_that_become_zero():
    configure(trace_underflow=True)
    data = np.array([[1.0], [SMALL], [1.0]], np.float32) * np.ones(4, np.float32)
    infeed = ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(data))
    strategy = IPUStrategy()
    with strategy.scope():
        step, weight = stepping(scaling(2.0)(keras.optimizers.SGD(1e-3)), SMALL)

        def body(x):
            step(x)

        strategy.run(tf.function(lambda: loops.repeat(3, body, infeed_queue=infeed)))
    (found,) = found_in(strategy)
    assert (found.fault, found.lost, found.op_type) == ("underflow", 4, "Mul")
    assert [number for _, number in found.iterations] == [1]
    assert found.update == 2
    assert (weight.numpy() < 1.0).all()


@pytest.mark.slow
def test_programs_with_feeds_are_searched_for_gradients_that_overflow():
    configure(trace_numerics=True)
    infeed = ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices([1.0, 2.0]))
    total = tf.Variable(0.0)
    strategy = IPUStrategy()
    with strategy.scope():
        make = scaling(32768.0)
        step, _ = stepping(make(keras.optimizers.SGD(1e-3)), 4.0)

        def body(x):
            total.assign_add(x)

        def program():
            loops.repeat(2, body, infeed_queue=infeed)
            return step.python_function(tf.fill([4], total))

        strategy.run(tf.function(program))
    (found,) = found_in(strategy)
    assert (found.fault, found.handled, found.loss_scale) == ("overflow", True, 32768)
    assert total == 3.0


@pytest.mark.slow
def test_programs_with_collectives_are_searched_for_gradients_that_become_zero():
    configure(ipus=2, trace_underflow=True)
    weight = tf.Variable(tf.ones([4]))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape, tf.name_scope("block"):
            y = (
                tf.cast(weight, tf.float16)
                * tf.cast(x, tf.float16)
                * tf.constant(SMALL, tf.float16)
            )
            loss = tf.cast(tf.reduce_sum(y), tf.float32)
        (gradient,) = tape.gradient(loss, [weight])
        weight.assign_sub(cross_replica_ops.cross_replica_sum(gradient))
        return loss

    strategy = IPUStrategy(enable_keras_extensions=False)
    before = weight.numpy()
    strategy.run(step, args=(tf.fill([4], tf.constant(SMALL)),))
    found = found_in(strategy)
    assert {one.replica for one in found} <= {0, 1}
    assert [(one.fault, one.lost) for one in found][:1] == [("underflow", 4)]
    np.testing.assert_array_equal(weight.numpy(), before)


@pytest.mark.slow
def test_loops_that_xla_compiles_are_searched_for_gradients_that_overflow(monkeypatch, caplog):
    monkeypatch.setattr(jitting, "JITTED_STEPS", 0)
    monkeypatch.setattr(jitting, "STEPS_PER_OPERATION", 0)
    caplog.set_level("INFO", logger=jitting.__name__)
    configure(trace_numerics=True)
    (found,), losses = fitted(1000.0, 2.0**15, steps_per_execution=2)
    assert "is compiled by XLA" in caplog.text
    assert (found.handled, found.loss_scale, found.update) == (True, 2.0**15, 1)
    assert np.isfinite(losses).all()


@pytest.mark.slow
def test_functions_that_xla_compiles_around_a_run_are_not_searched_for_zeros(caplog):
    configure(trace_underflow=True)
    strategy = IPUStrategy(enable_keras_extensions=False)
    tf.function(lambda: strategy.run(lambda: tf.constant(1.0) + 1.0), jit_compile=True)()
    assert "gradients which become 0 are not looked for in it. Leave jit_compile out" in caplog.text


@pytest.mark.slow
def test_what_is_kept_for_a_replay_ends_with_its_program():
    configure(trace_numerics=True)
    gc.collect()
    before = set(replay_calls._programs)
    found, *_ = trained(scaling(32768.0), 4.0, steps=2)
    assert [one.handled for one in found] == [True]
    assert set(replay_calls._programs) - before
    config.reset_ipu_configuration()
    gc.collect()
    assert set(replay_calls._programs) <= before
