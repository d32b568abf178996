"""Layers that capture gradients, alone and with automatic loss scaling."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import config
from ipu_tf.keras.layers import CaptureActivationGradients, CaptureUpstreamGradients
from ipu_tf.keras.optimizers import ALSGradientAccumulationOptimizer, ALSOptimizer
from ipu_tf.ops.grad_util_ops import take_captured_gradients
from tests.keras.equivalence import strategy_of

X = np.random.default_rng(4).normal(size=(5, 3)).astype("float32")


def captured_in_a_step(layer, x=X):
    """The outputs of a layer, the gradient of its inputs, and what was captured."""

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x)
            loss = tf.reduce_sum(outputs**2)
        return outputs, tape.gradient(loss, x), take_captured_gradients()

    return step(tf.constant(x))


def test_upstream_gradients():
    dense = keras.layers.Dense(4, activation="tanh", name="dense")
    outputs, _, captured = captured_in_a_step(CaptureUpstreamGradients(dense))
    np.testing.assert_allclose(outputs, dense(X), rtol=1e-6)
    assert list(captured) == ["dense_cug"]
    np.testing.assert_allclose(captured["dense_cug"][0], 2 * outputs, rtol=1e-6)


def test_activation_gradients():
    dense = keras.layers.Dense(4, activation="tanh", name="dense")
    dense(X)
    layer = CaptureActivationGradients(dense)
    outputs, _, captured = captured_in_a_step(layer)
    np.testing.assert_allclose(outputs, dense(X), rtol=1e-6)
    assert list(captured) == ["dense_cag_activation"]
    expected = 2 * outputs * (1 - outputs**2)
    np.testing.assert_allclose(captured["dense_cag_activation"][0], expected, rtol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("kind", [CaptureUpstreamGradients, CaptureActivationGradients])
def test_gradients_flow_on_unchanged(kind):
    dense = keras.layers.Dense(4, activation="tanh")
    dense(X)
    _, plain, _ = captured_in_a_step(dense)
    _, through, _ = captured_in_a_step(kind(dense))
    np.testing.assert_array_equal(through, plain)


def test_tags():
    dense = keras.layers.Dense(4, activation="relu")
    layer = CaptureUpstreamGradients(dense, tag="mine")
    assert (layer.tag, layer.name, layer.layer) == ("mine", "mine", dense)
    _, _, captured = captured_in_a_step(CaptureActivationGradients(dense, tag="act"))
    assert list(captured) == ["act_activation"]


def test_weights_are_those_of_the_wrapped_layer():
    dense = keras.layers.Dense(4)
    layer = CaptureUpstreamGradients(dense)
    layer(X)
    assert [id(weight) for weight in layer.weights] == [id(weight) for weight in dense.weights]


def test_training_reaches_the_wrapped_layer():
    layer = CaptureUpstreamGradients(keras.layers.Dropout(0.5))
    assert np.any(layer(X, training=True) != X)
    np.testing.assert_array_equal(layer(X, training=False), X)


def test_symbolic_inputs():
    dense = keras.layers.Dense(4, activation="relu")
    for kind in (CaptureUpstreamGradients, CaptureActivationGradients):
        assert kind(dense)(keras.Input((3,))).shape == (None, 4)


def test_layers_that_are_supported():
    supported = CaptureActivationGradients.layer_is_supported
    assert supported(keras.layers.Dense(4, activation="relu"))
    assert supported(keras.layers.Conv2D(4, 3, activation="relu"))
    assert not supported(keras.layers.Dropout(0.5))
    assert not supported(keras.layers.LSTM(4))


@pytest.mark.parametrize("layer", [keras.layers.Dropout(0.5), keras.layers.LSTM(4)])
def test_layers_without_an_activation(layer):
    message = f"layer '{layer.name}' does not use an activation function, or .*Received: a layer of"
    with pytest.raises(ValueError, match=message):
        CaptureActivationGradients(layer)


@pytest.mark.parametrize("kind", [CaptureUpstreamGradients, CaptureActivationGradients])
def test_what_is_no_layer(kind):
    with pytest.raises(ValueError, match="expected an instance of a Keras layer.*Received: 'relu'"):
        kind("relu")


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("kind", [CaptureUpstreamGradients, CaptureActivationGradients])
@pytest.mark.parametrize("captured_only", [False, True])
@pytest.mark.slow
def test_loss_scaling_counts_the_captured_gradients_of_a_mixed_model(strategy, kind, captured_only):
    """Its variables have float32 gradients, its activations 20 x 4 float16 ones a step."""
    with strategy.scope():
        policy = "mixed_float16"
        model = keras.Sequential(
            [
                kind(keras.layers.Dense(4, activation="relu", dtype=policy)),
                keras.layers.Dense(1, dtype=policy),
            ]
        )
        optimizer = ALSOptimizer(keras.optimizers.SGD(0.01), captured_grads_only=captured_only)
        model.compile(optimizer=optimizer, loss="mse")
    x, y = np.ones((40, 3), "float32"), np.ones((40, 1), "float32")
    model.fit(x, y, batch_size=20, verbose=0)
    assert float(tf.reduce_sum(optimizer.histogram)) == 2 * 20 * 4


def mixed_model(optimizer, **options):
    """A model with float32 gradients of variables, and 4 captured float16 ones a sample."""
    keras.utils.set_random_seed(3)
    policy = "mixed_float16"
    model = keras.Sequential(
        [
            keras.Input((3,)),
            CaptureUpstreamGradients(keras.layers.Dense(4, activation="relu", dtype=policy)),
            keras.layers.Dense(1, dtype=policy),
        ]
    )
    model.compile(optimizer=optimizer, loss="mse", **options)
    return model


def frozen(**settings):
    """Weights stay as they are: what is counted does not depend on when they are updated."""
    settings = {"captured_grads_only": True, "histogram_bin_edge": 0.01} | settings
    return ALSOptimizer(keras.optimizers.SGD(0.0), update_frequency=100, **settings)


MICRO_BATCHES = 4


def counted(strategy, *, micro_batches, updates=2, replicas=1, **settings):
    """Returns the histogram after training on the same data in so many micro-batches."""
    with strategy.scope():
        optimizer = frozen(**settings)
        model = mixed_model(optimizer, steps_per_execution=micro_batches)
    model.set_gradient_accumulation_options(micro_batches)
    random = np.random.default_rng(5)
    count = 5 * MICRO_BATCHES * updates
    x, y = random.normal(size=(count, 3)), random.normal(size=(count, 1))
    model.fit(x.astype("float32"), y.astype("float32"), batch_size=5, shuffle=False, verbose=0)
    assert int(optimizer.update_counter) == count // (5 * micro_batches * replicas)
    return np.asarray(optimizer.histogram)


@pytest.mark.parametrize("captured_only", [False, True])
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_accumulation_counts_the_captured_gradients_of_every_micro_batch(strategy, captured_only):
    settings = {"captured_grads_only": captured_only}
    every = counted(strategy, micro_batches=1, **settings)
    assert every.min() > 0
    assert every.sum() == 2 * MICRO_BATCHES * 5 * 4
    np.testing.assert_array_equal(counted(strategy, micro_batches=MICRO_BATCHES, **settings), every)


@pytest.mark.slow
def test_replicas_count_the_captured_gradients_of_all(strategy):
    every = counted(strategy, micro_batches=1)
    config.reset_ipu_configuration()
    several = counted(strategy_of(2), micro_batches=2, replicas=2)
    config.reset_ipu_configuration()
    np.testing.assert_array_equal(several, every)


@pytest.mark.slow
def test_accumulation_counts_for_the_last_update_alone_where_that_is_wanted(strategy):
    settings = {"accumulate_statistics_over_update_period": False}
    assert counted(strategy, micro_batches=MICRO_BATCHES, **settings).sum() == 0


@pytest.mark.slow
def test_accumulation_moves_the_factor(strategy):
    with strategy.scope():
        optimizer = ALSOptimizer(
            keras.optimizers.SGD(0.0), update_frequency=1, captured_grads_only=True
        )
        model = mixed_model(optimizer, steps_per_execution=MICRO_BATCHES)
    model.set_gradient_accumulation_options(MICRO_BATCHES)
    x, y = np.ones((5 * MICRO_BATCHES, 3), "float32"), np.ones((5 * MICRO_BATCHES, 1), "float32")
    model.fit(x, y, batch_size=5, verbose=0)
    assert float(optimizer.loss_scaling_factor) == 2.0


def test_accumulation_wants_captured_gradients_where_they_alone_count(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(optimizer=frozen(), loss="mse", steps_per_execution=2)
    model.set_gradient_accumulation_options(2)
    with pytest.raises(ValueError, match="counts captured .* Received: no captured"):
        model.fit(np.ones((4, 3), "float32"), np.ones((4, 1), "float32"), batch_size=2, verbose=0)


@pytest.mark.slow
def test_accumulation_in_the_optimizer_and_in_the_loop(strategy):
    with strategy.scope():
        optimizer = ALSGradientAccumulationOptimizer(frozen(), num_mini_batches=2)
        model = mixed_model(optimizer, steps_per_execution=4)
    model.set_gradient_accumulation_options(2)
    model.fit(np.ones((20, 3), "float32"), np.ones((20, 1), "float32"), batch_size=5, verbose=0)
    assert float(tf.reduce_sum(optimizer.histogram)) == 20 * 4
    assert int(optimizer.iterations) == 1


class Observing(keras.optimizers.SGD):
    """A script's own optimizer that takes captured gradients."""

    supports_captured_grads = True

    def apply_gradients(self, grads_and_vars, captured_grads=None):
        self.captured = captured_grads
        return super().apply_gradients(grads_and_vars)


@pytest.mark.slow
def test_an_optimizer_of_a_script_takes_captured_gradients(strategy):
    with strategy.scope():
        model = mixed_model(Observing())
    model.fit(np.ones((4, 3)), np.ones((4, 1)), batch_size=4, verbose=0)
    ((gradient,),) = model.optimizer.captured.values()
    assert gradient.shape == (4, 4)


@pytest.mark.slow
def test_captured_gradients_of_several_micro_batches_are_refused_where_they_are_not_kept(strategy):
    with strategy.scope():
        model = mixed_model(Observing(), steps_per_execution=2)
    model.set_gradient_accumulation_options(2)
    with pytest.raises(NotImplementedError, match="do not outlive .* micro-batch. Train without"):
        model.fit(np.ones((4, 3)), np.ones((4, 1)), batch_size=2, verbose=0)
