"""Losses over sampled classes against those of TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.ops import nn_ops
from ipu_tf.ops.functions import candidate_losses

CLASSES, FEATURES, SAMPLES = 9, 4, 5
RANDOM = np.random.default_rng(8)
WEIGHTS = RANDOM.normal(size=(CLASSES, FEATURES)).astype("float32")
BIASES = RANDOM.normal(size=CLASSES).astype("float32")
INPUTS = RANDOM.normal(size=(SAMPLES, FEATURES)).astype("float32")


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("true", [1, 2])
@pytest.mark.parametrize(
    ("ours", "stock"),
    [
        (nn_ops.sampled_softmax_loss, tf.nn.sampled_softmax_loss),
        (nn_ops.nce_loss, tf.nn.nce_loss),
    ],
)
def test_losses_and_gradients_are_those_of_tensorflow(ours, stock, true):
    labels = RANDOM.integers(0, CLASSES, size=(SAMPLES, true))
    sampled = tf.random.log_uniform_candidate_sampler(labels, true, 4, True, CLASSES, seed=3)
    results = []
    for loss in (ours, stock):
        sources = [tf.constant(WEIGHTS), tf.constant(BIASES), tf.constant(INPUTS)]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            weights, biases, inputs = sources
            value = loss(
                weights=weights, biases=biases, labels=labels, inputs=inputs, num_sampled=4,
                num_classes=CLASSES, num_true=true, sampled_values=sampled,
            )  # fmt: skip
        gradients = tape.gradient(value, sources)
        results.append([value, *map(tf.convert_to_tensor, gradients)])
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.slow
def test_classes_are_sampled_as_tensorflow_samples_them():
    labels = tf.constant([[0], [7]], tf.int64)
    seen, counts, tries = np.zeros((2, CLASSES)), np.zeros((2, 2)), 400
    for number in range(tries):
        stock = tf.random.log_uniform_candidate_sampler(labels, 1, 3, True, CLASSES, seed=number)
        shares = candidate_losses.log_uniform_shares(CLASSES)
        own = candidate_losses.sampled_without_repetition(shares, tf.cast(labels, tf.int32), 3)
        for row, (sampled, true, _) in enumerate((stock, own)):
            assert len(set(sampled.numpy())) == 3
            np.add.at(seen[row], sampled.numpy(), 1 / tries)
            counts[row] += true.numpy()[:, 0] / tries
    np.testing.assert_allclose(seen[1], seen[0], atol=0.12)
    np.testing.assert_allclose(counts[1], counts[0], atol=0.05)


@pytest.mark.slow
def test_the_device_samples():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    strategy = IPUStrategy(enable_keras_extensions=False)

    @tf.function
    def step(inputs):
        labels = tf.constant([[1], [0], [5], [2], [8]])
        return nn_ops.sampled_softmax_loss(WEIGHTS, BIASES, labels, inputs, 4, CLASSES, seed=2)

    try:
        loss = strategy.run(step, args=(tf.constant(INPUTS),))
    finally:
        config.reset_ipu_configuration()
    assert loss.shape == (SAMPLES,)
    assert np.isfinite(loss).all()
    with pytest.raises(ValueError, match="Only 9 different classes can be sampled"):
        nn_ops.nce_loss(WEIGHTS, BIASES, [[1]], INPUTS[:1], 10, CLASSES)
