"""Dropout: what is dropped, the masks of a seed, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.layers import Dropout

ONES = np.ones((50, 40), "float32")


def test_outside_of_training_nothing_is_dropped():
    np.testing.assert_array_equal(Dropout(0.5)(ONES), ONES)
    np.testing.assert_array_equal(Dropout(0.0)(ONES, training=True), ONES)


@pytest.mark.parametrize("seed", [None, (1, 2)])
def test_what_stays_is_scaled_up(seed):
    keras.utils.set_random_seed(1)
    dropped = Dropout(0.75, seed=seed)(ONES, training=True).numpy()
    assert set(np.unique(dropped)) == {0.0, 4.0}
    assert np.mean(dropped == 0) == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize("seed", [(3, 4), [3, 4], np.array([3, 4]), tf.constant([3, 4])])
def test_a_seed_fixes_the_mask(seed):
    layer = Dropout(0.5, seed=seed)
    first = layer(ONES, training=True)
    np.testing.assert_array_equal(layer(ONES, training=True), first)
    np.testing.assert_array_equal(Dropout(0.5, seed=(3, 4))(ONES, training=True), first)
    assert np.any(Dropout(0.5, seed=(3, 5))(ONES, training=True) != first)


def test_without_a_seed_masks_differ():
    layer = Dropout(0.5)
    assert np.any(layer(ONES, training=True) != layer(ONES, training=True))


@pytest.mark.parametrize("seed", [None, (1, 2)])
@pytest.mark.parametrize("noise_shape", [(50, 1), (None, 1)])
def test_noise_shape_shares_values(seed, noise_shape):
    dropped = Dropout(0.5, noise_shape=noise_shape, seed=seed)(ONES, training=True).numpy()
    assert (dropped == dropped[:, :1]).all()
    assert set(np.unique(dropped)) == {0.0, 2.0}


def test_the_gradient_has_the_mask_of_the_outputs():
    layer, x = Dropout(0.5), tf.constant(ONES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x, training=True)
        loss = tf.reduce_sum(outputs)
    np.testing.assert_array_equal(tape.gradient(loss, x), outputs)


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_the_rate_is_checked(rate):
    with pytest.raises(ValueError, match=f"from 0 to 1. Received: rate={rate}"):
        Dropout(rate)


def test_a_rate_of_1_is_refused_in_training_alone():
    layer = Dropout(1.0, name="all")
    x = tf.ones((2, 3))
    np.testing.assert_array_equal(layer(x), x)
    message = "'all': in training, the rate must be from 0 up to but not including 1.*rate=1.0"
    with pytest.raises(ValueError, match=message):
        layer(x, training=True)


@pytest.mark.parametrize("seed", [7, [1, 2, 3], [1.0, 2.0]])
def test_the_seed_is_checked(seed):
    with pytest.raises(ValueError, match=r"Dropout: the seed must be a pair .* shape \[2\]. Rec"):
        Dropout(0.5, seed=seed)


@pytest.mark.parametrize("noise_shape", [(50,), (50, 2), (1, 1, 1)])
def test_the_noise_shape_is_checked(noise_shape):
    message = r"'drop': noise_shape must have the rank.*Received: noise_shape=\(.*of shape \(50, 40"
    with pytest.raises(ValueError, match=message):
        Dropout(0.5, noise_shape=noise_shape, name="drop")(ONES, training=True)


@pytest.mark.parametrize("ref", [True, False])
def test_ref_is_kept_and_changes_no_mask(ref):
    layer = Dropout(0.5, seed=(3, 4), ref=ref)
    expected = Dropout(0.5, seed=(3, 4))(ONES, training=True)
    np.testing.assert_array_equal(layer(ONES, training=True), expected)
    assert Dropout.from_config(layer.get_config()).ref is ref


def test_ref_is_a_bool():
    with pytest.raises(TypeError, match="Dropout: `ref` must be True or False. Received: 'x'"):
        Dropout(0.5, ref="x")
