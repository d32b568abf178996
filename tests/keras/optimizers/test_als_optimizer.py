"""Automatic loss scaling: its state machine step by step, its settings, its errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.optimizers import ALSDefaults, ALSOptimizer
from tests.keras.optimizers.parameters import VARIABLE, check_equal, gradients, trained, variables

LARGE, SMALL = 10000.0, 1.0
READ_ONLY = (
    "histogram",
    "normalized_histogram",
    "loss_scaling_factor",
    "previous_loss_scaling_factor",
    "update_counter",
    "decrease_factor",
    "supports_captured_grads",
)


def make(**settings):
    return ALSOptimizer(keras.optimizers.SGD(0.0), **settings)


def step(optimizer, *values, dtype="float16", **kwargs):
    """One step with a gradient of these values, and what the optimizer shows after it."""
    weights = step.weights.setdefault(id(optimizer), VARIABLE(np.zeros(len(values)), dtype=dtype))
    optimizer.apply_gradients([(tf.constant(values, dtype), weights)], **kwargs)
    return float(optimizer.loss_scaling_factor), list(optimizer.histogram.numpy())


@pytest.fixture(autouse=True)
def fresh_weights():
    step.weights = {}


def test_the_factor_grows_when_gradients_are_small():
    optimizer = make(update_frequency=2, initial_loss_scaling_factor=4)
    assert step(optimizer, SMALL, -SMALL) == (4.0, [2, 0])
    assert step(optimizer, SMALL, -SMALL) == (4.0, [4, 0])
    assert int(optimizer.update_counter) == 2
    assert step(optimizer, SMALL, -SMALL) == (8.0, [0, 0])
    assert float(optimizer.previous_loss_scaling_factor) == 4.0
    assert int(optimizer.update_counter) == 0


def test_the_factor_shrinks_when_gradients_are_large():
    optimizer = make(update_frequency=2, initial_loss_scaling_factor=16, increase_factor=4)
    assert step(optimizer, SMALL, -LARGE) == (16.0, [1, 1])
    assert step(optimizer, SMALL, SMALL) == (16.0, [3, 1])
    assert step(optimizer, SMALL, SMALL) == (4.0, [0, 0])
    assert float(optimizer.previous_loss_scaling_factor) == 16.0


def test_infinite_gradients_are_large_and_no_step_is_skipped():
    optimizer = ALSOptimizer(keras.optimizers.SGD(1.0), update_frequency=8)
    assert step(optimizer, np.inf, np.nan, SMALL)[1] == [1, 2]
    assert float(step.weights[id(optimizer)][2]) == -1.0


def test_the_threshold():
    for share, expected in ((0.26, 4.0), (0.25, 1.0)):
        optimizer = make(update_frequency=1, initial_loss_scaling_factor=2, ratio_threshold=share)
        assert step(optimizer, LARGE, SMALL, SMALL, SMALL)[0] == expected


def test_the_bin_edge_belongs_to_the_large_ones():
    optimizer = make(histogram_bin_edge=2.0)
    assert step(optimizer, 1.99, -2.0)[1] == [1, 1]


def test_the_factor_stays_in_its_range():
    optimizer = make(update_frequency=1, max_loss_scaling_factor=4)
    assert [step(optimizer, SMALL)[0] for _ in range(3)] == [2.0, 2.0, 2.0]
    assert [step(optimizer, LARGE)[0] for _ in range(3)] == [1.0, 1.0, 1.0]
    assert float(optimizer.previous_loss_scaling_factor) == 2.0


def test_only_float16_gradients_count():
    optimizer = make(update_frequency=1)
    assert step(optimizer, LARGE, dtype="float32") == (2.0, [0, 0])


def test_the_rows_of_sparse_gradients_count():
    optimizer = make()
    weights = VARIABLE(np.zeros((5, 2)), dtype="float16")
    rows = tf.IndexedSlices(tf.constant([[SMALL, LARGE]], tf.float16), [1], [5, 2])
    optimizer.apply_gradients([(rows, weights)])
    np.testing.assert_array_equal(optimizer.histogram, [1, 1])


def test_statistics_of_the_last_step_alone():
    optimizer = make(
        update_frequency=2,
        initial_loss_scaling_factor=2,
        accumulate_statistics_over_update_period=False,
    )
    assert step(optimizer, LARGE) == step(optimizer, LARGE) == (2.0, [0, 0])
    assert step(optimizer, SMALL) == (4.0, [0, 0])


def test_low_pass_filter():
    optimizer = make(lpf_alpha=0.5)
    assert step(optimizer, SMALL, LARGE)[1] == [0.5, 0.5]
    assert step(optimizer, SMALL, LARGE)[1] == [1.0, 1.0]
    assert step(make(lpf_alpha=1.0), LARGE)[1] == [0, 0]


def test_captured_gradients_count_too():
    captured = {
        "a": tf.constant([[LARGE, SMALL]], tf.float16),
        "b": [tf.constant([LARGE], tf.float16), tf.constant([LARGE], tf.float32)],
    }
    assert step(make(), SMALL, captured_grads=captured)[1] == [2, 2]
    assert step(make(captured_grads_only=True), SMALL, captured_grads=captured)[1] == [1, 2]


def test_captured_gradients_may_be_counted_before():
    optimizer = make(captured_grads_only=True)
    captured = {"one": [tf.constant([SMALL, LARGE], "float16")], "two": [tf.constant([LARGE])]}
    counts = optimizer.count_captured(captured)
    assert list(counts.numpy()) == [1, 1]
    assert step(optimizer, SMALL, captured_counts=counts + counts)[1] == [2, 2]


def test_captured_gradients_alone_have_to_be_there():
    with pytest.raises(ValueError, match="'ALSOptimizer' counts captured .* Received: no captured"):
        step(make(captured_grads_only=True), SMALL)


def test_normalized_histogram():
    optimizer = make()
    step(optimizer, SMALL, SMALL, SMALL, LARGE)
    np.testing.assert_allclose(optimizer.normalized_histogram, [0.75, 0.25])


def test_reset():
    optimizer = make(update_frequency=2, initial_loss_scaling_factor=2)
    for _ in range(4):
        step(optimizer, SMALL)
    optimizer.reset()
    assert float(optimizer.loss_scaling_factor) == 2.0
    assert float(optimizer.previous_loss_scaling_factor) == 2.0
    assert int(optimizer.update_counter) == 0
    np.testing.assert_array_equal(optimizer.histogram, [0, 0])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("inner", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_scaling_cancels(inner):
    """Scaled gradients give the steps of the wrapped optimizer on unscaled ones."""
    optimizer = ALSOptimizer(inner(0.1), update_frequency=2)
    parameters, history = variables(), []
    for grads in gradients(5):
        scaled = [grad * optimizer.loss_scaling_factor for grad in grads]
        optimizer.apply_gradients(zip(scaled, parameters, strict=True))
        history.append([variable.numpy() for variable in parameters])
    assert float(optimizer.loss_scaling_factor) == 2.0
    check_equal(history, trained(inner(0.1)), rtol=1e-7)


def test_the_loss_is_scaled_in_its_own_type():
    optimizer = make(initial_loss_scaling_factor=8)
    for dtype in ("float16", "float32"):
        scaled = optimizer.get_scaled_loss(tf.constant(3.0, dtype))
        assert scaled.dtype == dtype
        assert float(scaled) == 24.0


def test_get_gradients():
    optimizer = make(initial_loss_scaling_factor=8)
    weight = VARIABLE(3.0)

    @tf.function
    def scaled_gradients():
        return optimizer.get_gradients(tf.square(weight), [weight])

    assert [float(gradient) for gradient in scaled_gradients()] == [48.0]


def test_global_step_is_counted():
    counter = tf.Variable(5)
    step(make(), SMALL, global_step=counter)
    assert int(counter) == 6


def test_variables_without_gradients_are_left_out():
    optimizer = ALSOptimizer(keras.optimizers.SGD(1.0))
    kernel, bias = variables("float16")
    before = bias.numpy()
    with pytest.warns(UserWarning, match="Gradients do not exist for variables"):
        optimizer.apply_gradients([(tf.ones((4, 3), tf.float16), kernel), (None, bias)])
    np.testing.assert_array_equal(bias, before)
    np.testing.assert_array_equal(optimizer.histogram, [12, 0])


def test_defaults():
    optimizer = make()
    assert optimizer.initial_loss_scaling_factor == ALSDefaults.initial_loss_scaling_factor == 1
    assert optimizer.update_frequency == 8
    assert optimizer.increase_factor == 2
    assert optimizer.decrease_factor == 0.5
    assert optimizer.max_loss_scaling_factor == 32768
    assert optimizer.accumulate_statistics_over_update_period is True
    assert optimizer.ratio_threshold == 10e-6
    assert optimizer.captured_grads_only is False
    assert optimizer.lpf_alpha == 0.0
    assert optimizer.histogram_bin_edge == 2**13
    assert optimizer.supports_captured_grads is True
    assert optimizer.get_name() == "ALSOptimizer"


def test_config_round_trip():
    optimizer = ALSOptimizer(
        keras.optimizers.Adam(0.25),
        initial_loss_scaling_factor=4,
        update_frequency=3,
        increase_factor=4,
        max_loss_scaling_factor=1024,
        accumulate_statistics_over_update_period=False,
        ratio_threshold=0.5,
        captured_grads_only=True,
        lpf_alpha=0.25,
        histogram_bin_edge=64.0,
        name="als",
    )
    copied = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(copied) is ALSOptimizer
    assert copied.get_config() == optimizer.get_config()
    assert float(copied.learning_rate) == 0.25


def test_the_learning_rate_is_that_of_the_wrapped_optimizer():
    optimizer = make()
    optimizer.learning_rate = 0.5
    assert float(optimizer.inner_optimizer.learning_rate) == 0.5
    assert int(optimizer.iterations) == 0


@pytest.mark.parametrize("name", READ_ONLY)
def test_read_only_attributes(name):
    with pytest.raises(ValueError, match=f"^{name} is a read only property. Received: {name}=7"):
        setattr(make(), name, 7)


RULES = [
    ("initial_loss_scaling_factor", 3, "must be a power of two"),
    ("initial_loss_scaling_factor", 0, "must be a power of two"),
    ("initial_loss_scaling_factor", 0.5, "must be a power of two"),
    ("increase_factor", 1.5, "must be a power of two"),
    ("max_loss_scaling_factor", 1000, "must be a power of two"),
    ("max_loss_scaling_factor", float("inf"), "must be a power of two"),
    ("update_frequency", 0, "must be nonzero and positive"),
    ("update_frequency", 1.5, "must be nonzero and positive"),
    ("ratio_threshold", 0, "must be greater than zero and less than one"),
    ("ratio_threshold", 1.0, "must be greater than zero and less than one"),
    ("lpf_alpha", 1.5, "must be from 0 to 1"),
    ("histogram_bin_edge", 0.0, "must be positive"),
]


@pytest.mark.parametrize(("name", "value", "rule"), RULES)
def test_rules_of_the_settings(name, value, rule):
    message = f"^{name} {rule}.*Received: {name}={value}"
    with pytest.raises(ValueError, match=message):
        make(**{name: value})
    with pytest.raises(ValueError, match=message):
        setattr(make(), name, value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"initial_loss_scaling_factor": 8, "max_loss_scaling_factor": 8},
            "initial_loss_scaling_factor must be less than max_loss_scaling_factor.*Received",
        ),
        (
            {"initial_loss_scaling_factor": 4, "max_loss_scaling_factor": 8},
            "initial_loss_scaling_factor x increase_factor must be less than max_loss_scal.*=4",
        ),
    ],
)
def test_the_factor_must_have_room_to_grow(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_a_setting_before_it_is_built_starts_anew():
    optimizer = make()
    optimizer.initial_loss_scaling_factor = 16
    optimizer.update_frequency = 1
    assert step(optimizer, SMALL)[0] == 32.0


def test_no_setting_once_it_is_built():
    optimizer = make()
    step(optimizer, SMALL)
    message = "update_frequency of optimizer 'ALSOptimizer' cannot be set any more.*Received: .*=3"
    with pytest.raises(ValueError, match=message):
        optimizer.update_frequency = 3
