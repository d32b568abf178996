"""Joined element-wise ops: the bits of the stock ops that they take the place of."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops.kernels import library
from tests.ops.tile_cases import normals

PHILOX = 1
RATES = [0.0, 0.25, 0.3, 1e-8, 1.0]


def drawn(key, counter, rate, shape):
    """Returns the mask of dropout, ours and stock."""
    key, counter = tf.constant([key], tf.uint64), tf.constant(counter, tf.uint64)
    ours = library.load().ipu_dropout_mask(key, counter, rate=rate, shape=shape)
    numbers = tf.raw_ops.StatelessRandomUniformV2(
        shape=shape, key=key, counter=counter, alg=PHILOX, dtype=tf.float32
    )
    return ours, numbers >= rate


class TestDropoutMask:
    @pytest.mark.parametrize("rate", RATES)
    @pytest.mark.parametrize("shape", [(0,), (3,), (64,), (7, 5, 3), (300, 901)])
    def test_is_stock(self, rate, shape):
        ours, stock = drawn(0x123456789ABCDEF0, [11, 2], rate, shape)
        np.testing.assert_array_equal(ours, stock)

    @pytest.mark.parametrize(
        "counter", [[2**32 - 5, 3], [2**64 - 7, 0], [2**64 - 7, 2**32 - 1], [2**64 - 1, 2**64 - 1]]
    )
    def test_counter_carries(self, counter):
        ours, stock = drawn(99, counter, 0.5, (5, 41))
        np.testing.assert_array_equal(ours, stock)
        assert 0 < np.count_nonzero(ours) < 205

    def test_generator_of_another_size(self):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"a key of one word and a counter of two. Received: \[2\] and \[2\]",
        ):
            library.load().ipu_dropout_mask(
                tf.zeros([2], tf.uint64), tf.zeros([2], tf.uint64), rate=0.5, shape=[3]
            )


class TestStatefulDropoutMask:
    @pytest.mark.parametrize("shape", [(0,), (3,), (300, 901)])
    def test_calls_are_those_of_stock(self, shape):
        @tf.function
        def masks():
            ours = library.load().ipu_stateful_dropout_mask(
                rate=0.3, shape=shape, seed=5, seed2=2**40 + 1
            )
            numbers = tf.raw_ops.RandomUniform(
                shape=shape, dtype=tf.float32, seed=5, seed2=2**40 + 1
            )
            return ours, numbers >= 0.3

        calls = [masks() for _ in range(3)]
        for ours, stock in calls:
            np.testing.assert_array_equal(ours, stock)
        assert not shape[0] or len({ours.numpy().tobytes() for ours, _ in calls}) > 1


class TestMaskedScale:
    @pytest.mark.parametrize("shape", [(), (5,), (16,), (3, 37), (700, 401)])
    def test_is_stock(self, shape):
        x, scale = normals(0, shape), tf.constant(1.0 / 0.7)
        mask = normals(1, shape) > 0
        np.testing.assert_array_equal(
            library.load().ipu_masked_scale(x, mask, scale), tf.where(mask, x * scale, 0.0)
        )

    def test_what_is_dropped_is_zero(self):
        x = np.array([np.nan, np.inf, -np.inf, -1.0] * 9, np.float32)
        result = library.load().ipu_masked_scale(x, np.zeros(36, bool), tf.constant(2.0))
        np.testing.assert_array_equal(result, np.zeros(36, np.float32))

    def test_mask_of_another_shape(self):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"values and mask have one shape.*Received: \[3\], \[4\] and \[\]",
        ):
            library.load().ipu_masked_scale(tf.zeros([3]), tf.zeros([4], tf.bool), tf.constant(1.0))


# Images, window, strides, padding.
POOLS = {
    "tiled": ((3, 8, 6, 32), (2, 2), (2, 2), "VALID"),
    "remainder": ((2, 7, 9, 5), (2, 3), (2, 3), "VALID"),
    "overlap": ((2, 11, 9, 37), (3, 3), (2, 2), "SAME"),
    "gaps": ((2, 9, 10, 3), (2, 1), (3, 4), "VALID"),
    "padded": ((2, 5, 7, 16), (2, 2), (2, 2), "SAME"),
    "dense": ((1, 6, 6, 1), (3, 2), (1, 1), "SAME"),
}


def pool_gradients(images, window, strides, padding, *, relu):
    """Returns the gradient of max pooling, after a ReLU perhaps, ours and stock."""
    x = tf.nn.relu(images) if relu else tf.constant(images)
    attributes = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}
    y = tf.raw_ops.MaxPool(input=x, **attributes)
    dy = tf.constant(normals(5, y.shape))
    stock = tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=dy, **attributes)
    if relu:
        stock = tf.raw_ops.ReluGrad(gradients=stock, features=x)
    return library.load().ipu_max_pool_grad(x, y, dy, relu=relu, **attributes), stock


class TestMaxPoolGrad:
    @pytest.mark.parametrize("relu", [False, True])
    @pytest.mark.parametrize("case", POOLS)
    def test_is_stock(self, case, relu):
        shape, *attributes = POOLS[case]
        ours, stock = pool_gradients(normals(0, shape), *attributes, relu=relu)
        np.testing.assert_array_equal(ours, stock)

    @pytest.mark.parametrize("case", POOLS)
    def test_the_first_of_equal_elements_takes_it(self, case):
        shape, *attributes = POOLS[case]
        images = np.random.default_rng(3).integers(0, 3, shape).astype(np.float32)
        ours, stock = pool_gradients(images, *attributes, relu=False)
        np.testing.assert_array_equal(ours, stock)

    def test_a_window_of_nan_gives_it_to_its_first_element(self):
        images = np.full((1, 4, 4, 20), np.nan, np.float32)
        images[0, :2, 2:] = 1.0
        x = tf.constant(images)
        y = tf.nn.max_pool2d(x, 2, 2, "VALID")
        dy = tf.ones([1, 2, 2, 20])
        result = library.load().ipu_max_pool_grad(
            x, y, dy, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
        )
        expected = np.zeros((1, 4, 4, 20), np.float32)
        expected[:, ::2, ::2] = 1.0
        np.testing.assert_array_equal(result, expected)

    def test_shapes_that_do_not_fit(self):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"have the shape \[1,2,2,3\]. Received: \[1,2,2,3\] and \[1,2,1,3\]",
        ):
            library.load().ipu_max_pool_grad(
                tf.zeros([1, 4, 4, 3]),
                tf.zeros([1, 2, 2, 3]),
                tf.zeros([1, 2, 1, 3]),
                ksize=[1, 2, 2, 1],
                strides=[1, 2, 2, 1],
                padding="VALID",
            )

    def test_images_of_three_dimensions(self):
        x = tf.zeros([4, 4, 3])
        with pytest.raises(tf.errors.InvalidArgumentError, match="images have four dimensions"):
            library.load().ipu_max_pool_grad(
                x, x, x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
            )

    @pytest.mark.parametrize("wrong", ["ksize", "strides"])
    def test_windows_over_channels(self, wrong):
        x = tf.zeros([1, 4, 4, 4])
        attributes = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]} | {wrong: [1, 2, 2, 2]}
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=rf"{wrong} must be \[1, rows, columns, 1\]"
        ):
            library.load().ipu_max_pool_grad(x, x, x, padding="VALID", **attributes)


# Images, filter, strides: read as lines (of one panel of channels, or several), and by phases.
CONVOLUTIONS = {
    "lines": ((2, 9, 7, 32), (3, 3, 32, 24), 1),
    "panels": ((2, 9, 7, 45), (3, 3, 45, 24), 1),
    "strides": ((2, 9, 7, 20), (3, 3, 20, 24), 2),
    "groups": ((2, 9, 7, 20), (3, 3, 10, 24), 1),
}


class TestInputGradientBeforeRelu:
    @pytest.mark.parametrize("case", CONVOLUTIONS)
    def test_is_the_chain(self, case):
        images, filters, stride = CONVOLUTIONS[case]
        rows, columns = (-(-size // stride) for size in images[1:3])
        w, dy = normals(1, filters), normals(2, (images[0], rows, columns, filters[3]))
        features = tf.nn.relu(normals(3, images))
        attributes = {"strides": [1, stride, stride, 1], "padding": "SAME"}
        plain = library.load().ipu_conv2d_backprop_input(images, w, dy, **attributes)
        np.testing.assert_array_equal(
            library.load().ipu_conv2d_backprop_input_relu(images, w, dy, features, **attributes),
            tf.raw_ops.ReluGrad(gradients=plain, features=features),
        )

    def test_features_of_another_shape(self):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"features must have the shape of the image, \[1,4,4,2\]. Received: \[1,4,3,2\]",
        ):
            library.load().ipu_conv2d_backprop_input_relu(
                [1, 4, 4, 2],
                tf.zeros([1, 1, 2, 3]),
                tf.zeros([1, 4, 4, 3]),
                tf.zeros([1, 4, 3, 2]),
                strides=[1, 1, 1, 1],
                padding="SAME",
            )
