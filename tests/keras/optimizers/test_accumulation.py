"""Gradient accumulation by an optimizer, alone and with automatic loss scaling."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.keras.optimizers import (
    ALSGradientAccumulationOptimizer,
    ALSOptimizer,
    GradientAccumulationOptimizer,
)
from tests.keras.optimizers.parameters import VARIABLE, check_equal, gradients, variables

STEPS = 6
MEANS = (Method.MEAN, Method.RUNNING_MEAN)


def applied(optimizer, steps, scale=lambda: 1.0):
    """The variables after some steps, one gradient each."""
    parameters = variables()
    for grads in steps:
        scaled = [grad * scale() for grad in grads]
        optimizer.apply_gradients(zip(scaled, parameters, strict=True))
    return [variable.numpy() for variable in parameters]


def reduced(steps, every, method):
    """The gradients of the updates."""
    total = [
        [tf.add_n(grads) for grads in zip(*steps[i : i + every], strict=True)]
        for i in range(0, len(steps), every)
    ]
    return [[g / every if method in MEANS else g for g in grads] for grads in total]


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("inner", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_updates_equal_those_of_the_reduced_gradients(method, every, inner):
    steps = gradients(STEPS)
    ours = applied(GradientAccumulationOptimizer(inner(0.1), every, reduction_method=method), steps)
    stock = applied(inner(0.1), reduced(steps, every, method))
    check_equal([ours], [stock], rtol=1e-6)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("method", Method)
def test_loss_scaling_and_accumulation(method):
    """The factor moves between updates and leaves no trace in them."""
    als_optimizer = ALSOptimizer(keras.optimizers.SGD(0.1), update_frequency=1)
    optimizer = ALSGradientAccumulationOptimizer(als_optimizer, 3, reduction_method=method)
    steps = gradients(STEPS)
    ours = applied(optimizer, steps, scale=lambda: optimizer.loss_scaling_factor)
    stock = applied(keras.optimizers.SGD(0.1), reduced(steps, 3, method))
    check_equal([ours], [stock], rtol=1e-6)
    assert float(optimizer.loss_scaling_factor) == 2.0**2
    assert int(optimizer.iterations) == 2


@pytest.mark.parametrize(
    ("counts_all", "histograms"),
    [(True, [1, 2, 3, 4, 5, 0]), (False, [0, 0, 0, 0, 1, 0])],
)
def test_update_frequency_counts_updates(counts_all, histograms):
    als_optimizer = ALSOptimizer(
        keras.optimizers.SGD(0.1),
        update_frequency=2,
        accumulate_statistics_over_update_period=counts_all,
    )
    optimizer = ALSGradientAccumulationOptimizer(als_optimizer, 2)
    weights = VARIABLE([0.0], dtype="float16")
    states = []
    for _ in range(6):
        optimizer.apply_gradients([(tf.constant([1.0], tf.float16), weights)])
        counter, factor = optimizer.update_counter, optimizer.loss_scaling_factor
        states.append((int(counter), float(factor), float(optimizer.histogram[0])))
    counters, factors = [0, 1, 1, 2, 2, 0], [1.0] * 5 + [2.0]
    assert states == list(zip(counters, factors, histograms, strict=True))


def test_between_updates_nothing_moves():
    optimizer = GradientAccumulationOptimizer(keras.optimizers.SGD(0.1), 3)
    unmoved = [variable.numpy() for variable in variables()]
    check_equal([applied(optimizer, gradients(2))], [unmoved], rtol=0)
    assert int(optimizer.iterations) == 0


def test_an_unfinished_update_lives_on_in_a_saved_state():
    steps = gradients(4)
    whole = GradientAccumulationOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), 4)
    expected = applied(whole, steps)
    first = GradientAccumulationOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), 4)
    applied(first, steps[:3])
    second = GradientAccumulationOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), 4)
    parameters = variables()
    second.build(parameters)
    second.set_weights([variable.numpy() for variable in first.variables])
    store = {}
    first.save_own_variables(store)
    second.load_own_variables(store)
    second.apply_gradients(zip(steps[3], parameters, strict=True))
    check_equal([[v.numpy() for v in parameters]], [expected], rtol=1e-7)


def test_running_means_do_not_overflow_where_sums_do():
    gradient, weights = tf.constant([40000.0], tf.float16), VARIABLE([0.0], dtype="float16")
    for method, expected in ((Method.RUNNING_MEAN, -40000.0), (Method.SUM, -np.inf)):
        weights.assign([0.0])
        optimizer = GradientAccumulationOptimizer(
            keras.optimizers.SGD(1.0), 4, reduction_method=method
        )
        for _ in range(4):
            optimizer.apply_gradients([(gradient, weights)])
        assert float(weights.numpy()[0]) == expected


@pytest.mark.parametrize(("dtype", "expected"), [(None, "float32"), (tf.float16, "float16")])
def test_type_of_the_accumulators(dtype, expected):
    optimizer = GradientAccumulationOptimizer(keras.optimizers.SGD(0.1), 2, dtype=dtype)
    optimizer.build(variables())
    accumulators = [v for v in optimizer.variables if "accumulator" in v.name]
    assert [v.dtype for v in accumulators] == [expected, expected]


def test_variables_without_gradients_are_left_out():
    optimizer = GradientAccumulationOptimizer(keras.optimizers.SGD(1.0), 1)
    kernel, bias = variables()
    before = bias.numpy()
    optimizer.apply_gradients([(tf.ones((4, 3)), kernel), (None, bias)])
    np.testing.assert_array_equal(bias, before)


def test_captured_gradients_reach_the_loss_scaling():
    optimizer = ALSGradientAccumulationOptimizer(ALSOptimizer(keras.optimizers.SGD(0.1)), 2)
    captured = {"layer": [tf.constant([1.0, 10000.0], tf.float16)]}
    pairs = zip(gradients(1)[0], variables(), strict=True)
    optimizer.apply_gradients(pairs, captured_grads=captured)
    np.testing.assert_array_equal(optimizer.histogram, [1, 1])
    np.testing.assert_array_equal(optimizer.normalized_histogram, [0.5, 0.5])


def test_attributes_are_those_of_the_als_optimizer():
    als_optimizer = ALSOptimizer(
        keras.optimizers.SGD(0.1),
        initial_loss_scaling_factor=4,
        update_frequency=3,
        increase_factor=4,
        captured_grads_only=True,
        lpf_alpha=0.5,
    )
    optimizer = ALSGradientAccumulationOptimizer(als_optimizer, 2)
    assert optimizer.als_optimizer is als_optimizer
    for name in (
        "update_frequency",
        "increase_factor",
        "decrease_factor",
        "initial_loss_scaling_factor",
        "max_loss_scaling_factor",
        "accumulate_statistics_over_update_period",
        "ratio_threshold",
        "supports_captured_grads",
        "captured_grads_only",
        "lpf_alpha",
        "histogram_bin_edge",
    ):
        assert getattr(optimizer, name) == getattr(als_optimizer, name), name
        with pytest.raises(ValueError, match=f"^{name} is a read only property"):
            setattr(optimizer, name, 1)
    assert float(optimizer.loss_scaling_factor) == 4.0
    assert float(optimizer.previous_loss_scaling_factor) == 4.0
    assert int(optimizer.update_counter) == 0
    assert float(optimizer.scale_loss(tf.constant(2.0))) == 8.0


@pytest.mark.parametrize(
    "optimizer",
    [
        GradientAccumulationOptimizer(
            keras.optimizers.Adam(0.25),
            3,
            offload_weight_update_variables=True,
            replicated_optimizer_state_sharding=True,
            dtype=tf.float16,
            reduction_method="mean",
            name="accumulation",
        ),
        ALSGradientAccumulationOptimizer(
            ALSOptimizer(keras.optimizers.Adam(0.25), update_frequency=5), 3, name="both"
        ),
    ],
    ids=["accumulation", "als"],
)
def test_config_round_trip(optimizer):
    copied = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(copied) is type(optimizer)
    assert copied.get_config() == optimizer.get_config()
    assert float(copied.learning_rate) == 0.25


def test_the_learning_rate_is_that_of_the_wrapped_optimizer():
    optimizer = GradientAccumulationOptimizer(keras.optimizers.SGD(0.1), 2)
    optimizer.learning_rate = 0.5
    assert float(optimizer.inner_optimizer.learning_rate) == 0.5


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_the_number_of_mini_batches_is_checked(wrong):
    with pytest.raises(ValueError, match=f"positive whole number.*num_mini_batches={wrong}"):
        GradientAccumulationOptimizer(keras.optimizers.SGD(0.1), wrong)


def test_method_and_type_are_checked():
    with pytest.raises(ValueError, match="Cannot parse most as one of"):
        GradientAccumulationOptimizer(keras.optimizers.SGD(0.1), 2, reduction_method="most")
    with pytest.raises(ValueError, match="must be tf.float16 or tf.float32. Received: 'int8'"):
        GradientAccumulationOptimizer(keras.optimizers.SGD(0.1), 2, dtype="int8")


def test_another_optimizer_than_als_is_refused():
    with pytest.raises(ValueError, match="only be used with instances of ALSOptimizer.*Received"):
        ALSGradientAccumulationOptimizer(keras.optimizers.SGD(0.1), 2)
