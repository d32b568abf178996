"""Joined element-wise ops: the bits of the stock ops that they take the place of."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops.kernels import library
from tests.ops.tile_cases import normals

PHILOX = 1
RATES = [0.0, 0.25, 0.3, 1e-8, 1.0]


FLOATS = [tf.float32, tf.float16]


def drawn(key, counter, rate, shape, dtype=tf.float32):
    """Returns the mask of dropout, ours and stock."""
    key, counter = tf.constant([key], tf.uint64), tf.constant(counter, tf.uint64)
    rate = float(tf.constant(rate, dtype))
    ours = library.load().ipu_dropout_mask(key, counter, rate=rate, shape=shape, dtype=dtype)
    numbers = tf.raw_ops.StatelessRandomUniformV2(
        shape=shape, key=key, counter=counter, alg=PHILOX, dtype=dtype
    )
    return ours, numbers >= rate


class TestDropoutMask:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("rate", RATES)
    @pytest.mark.parametrize("shape", [(0,), (3,), (64,), (7, 5, 3), (300, 901)])
    def test_is_stock(self, rate, shape, dtype):
        ours, stock = drawn(0x123456789ABCDEF0, [11, 2], rate, shape, dtype)
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
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("shape", [(0,), (3,), (300, 901)])
    def test_calls_are_those_of_stock(self, shape, dtype):
        rate = float(tf.constant(0.3, dtype))

        @tf.function
        def masks():
            ours = library.load().ipu_stateful_dropout_mask(
                rate=rate, shape=shape, seed=5, seed2=2**40 + 1, dtype=dtype
            )
            numbers = tf.raw_ops.RandomUniform(shape=shape, dtype=dtype, seed=5, seed2=2**40 + 1)
            return ours, numbers >= rate

        calls = [masks() for _ in range(3)]
        for ours, stock in calls:
            np.testing.assert_array_equal(ours, stock)
        assert not shape[0] or len({ours.numpy().tobytes() for ours, _ in calls}) > 1


class TestMaskedScale:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("shape", [(), (5,), (16,), (3, 37), (700, 401)])
    def test_is_stock(self, shape, dtype):
        x, scale = tf.constant(normals(0, shape), dtype), tf.constant(1.0 / 0.7, dtype)
        mask = normals(1, shape) > 0
        np.testing.assert_array_equal(
            library.load().ipu_masked_scale(x, mask, scale),
            tf.where(mask, x * scale, tf.zeros_like(x)),
        )

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_what_is_dropped_is_zero(self, dtype):
        x = tf.constant([np.nan, np.inf, -np.inf, -1.0] * 9, dtype)
        result = library.load().ipu_masked_scale(x, np.zeros(36, bool), tf.constant(2.0, dtype))
        np.testing.assert_array_equal(result, np.zeros(36, np.float32))

    def test_a_product_beyond_float16_is_infinite_as_in_stock(self):
        x = tf.constant([6e4, -6e4, np.nan, np.inf, 3e-8], tf.float16)
        result = library.load().ipu_masked_scale(x, np.ones(5, bool), tf.constant(2.0, x.dtype))
        np.testing.assert_array_equal(result, x * 2.0)

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


WITHOUT_OVERLAP = sorted(POOLS.keys() - {"overlap", "dense"})


def pool_gradients(images, window, strides, padding, *, relu):
    """Returns the gradient of max pooling, after a ReLU perhaps, ours and stock."""
    x = tf.nn.relu(images) if relu else tf.constant(images)
    attributes = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}
    y = tf.raw_ops.MaxPool(input=x, **attributes)
    dy = tf.cast(normals(5, y.shape), x.dtype)
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

    @pytest.mark.parametrize("relu", [False, True])
    @pytest.mark.parametrize("case", WITHOUT_OVERLAP)
    def test_float16_is_stock(self, case, relu):
        shape, *attributes = POOLS[case]
        images = np.random.default_rng(3).integers(-2, 3, shape).astype(np.float16)
        ours, stock = pool_gradients(images, *attributes, relu=relu)
        assert ours.dtype == tf.float16
        np.testing.assert_array_equal(ours, stock)

    def test_float16_gradients_that_are_not_finite_stay(self):
        images = tf.constant(np.random.default_rng(3).integers(0, 3, (1, 4, 4, 20)), tf.float16)
        y = tf.nn.max_pool2d(images, 2, 2, "VALID")
        dy = tf.constant(np.tile([np.inf, -np.inf, np.nan, 65504, 6e-8], 16), tf.float16)
        arguments = {
            "orig_input": images, "orig_output": y, "grad": tf.reshape(dy, y.shape),
            "ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID",
        }  # fmt: skip
        np.testing.assert_array_equal(
            library.load().ipu_max_pool_grad(**arguments), tf.raw_ops.MaxPoolGrad(**arguments)
        )

    def test_windows_of_float16_that_overlap(self):
        x = tf.zeros([1, 4, 4, 4], tf.float16)
        with pytest.raises(tf.errors.InvalidArgumentError, match="would have to be rounded"):
            library.load().ipu_max_pool_grad(
                x, x, x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME"
            )

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


class TestBiasAddGrad:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 6, 7, 33), (9000, 64), (70000, 3)])
    def test_is_the_sum_over_rows(self, shape, dtype):
        gradient = tf.cast(normals(0, shape), dtype)
        terms = np.reshape(gradient.numpy().astype(np.float64), (-1, shape[-1]))
        exact, size = np.sum(terms, axis=0), np.sum(np.abs(terms), axis=0)
        sums = library.load().ipu_bias_add_grad(gradient)
        assert sums.dtype == dtype
        # A float32 sum of blocks, each of few additions in a row; of float16, rounded once more.
        bound = 1e-6 * size + (5e-4 * np.abs(exact) + 3e-8 if dtype == tf.float16 else 0)
        assert np.all(np.abs(sums.numpy() - exact) <= bound)

    def test_sums_beyond_float16_are_infinite_as_in_stock(self):
        gradient = tf.constant([[6e4, -6e4, 1.0]] * 3, tf.float16)
        stock = tf.raw_ops.BiasAddGrad(out_backprop=gradient)
        np.testing.assert_array_equal(library.load().ipu_bias_add_grad(gradient), stock)

    @pytest.mark.parametrize("shape", [(5,), (0, 4), (4, 0)])
    def test_what_has_no_rows(self, shape):
        with pytest.raises(tf.errors.InvalidArgumentError, match="rows of at least one channel"):
            library.load().ipu_bias_add_grad(tf.zeros(shape))


ROWS_OF_SCORES = [
    *((1, 1), (3, 2), (16, 10), (40, 10), (9, 16)),
    *((7, 32), (7, 33), (2, 1000), (4, 9, 5)),
]


class TestSoftmax:
    @pytest.mark.parametrize("shape", ROWS_OF_SCORES)
    def test_is_that_of_float64(self, shape):
        x = normals(0, shape, scale=5)
        np.testing.assert_allclose(
            library.load().ipu_softmax(x), tf.nn.softmax(x.astype(np.float64)), rtol=1e-5, atol=1e-9
        )

    @pytest.mark.parametrize("columns", [21, 50])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_what_is_not_finite_is_as_in_float64(self, value, columns):
        # In float32, oneDNN has zeros in a row of which one score is NaN.
        x = normals(0, (5, columns))
        x[0, 4] = x[1, :] = x[2, 0] = value
        np.testing.assert_allclose(
            library.load().ipu_softmax(x), tf.nn.softmax(x.astype(np.float64)), rtol=1e-5, atol=1e-9
        )

    def test_a_row_does_not_depend_on_those_beside_it(self):
        x = normals(0, (37, 10))
        whole = library.load().ipu_softmax(x)
        for row in range(37):
            alone = library.load().ipu_softmax(x[row : row + 1])
            np.testing.assert_array_equal(alone[0], whole[row])


@pytest.mark.parametrize(
    ("ours", "stock"),
    [("ipu_softmax", tf.nn.softmax), ("ipu_bias_add_grad", lambda x: tf.reduce_sum(x, 0))],
)
def test_gradients_are_those_of_stock(ours, stock):
    x = tf.constant(normals(0, (5, 7)))

    def gradient(op):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(tf.sin(op(x)))
        return tape.gradient(value, x)

    np.testing.assert_allclose(
        gradient(getattr(library.load(), ours)), gradient(stock), rtol=1e-5, atol=1e-6
    )


class TestArgMax:
    @pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
    @pytest.mark.parametrize("shape", [*ROWS_OF_SCORES, (0, 3), (70, 1000)])
    def test_is_stock(self, shape, dtype):
        # Few values, so that the largest one often stands twice.
        x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.float32)
        ours = library.load().ipu_arg_max(x, output_type=dtype)
        assert ours.dtype == dtype
        np.testing.assert_array_equal(ours, tf.argmax(x, -1, dtype))

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -3.4028235e38])
    def test_what_is_not_finite_is_as_in_stock(self, value):
        x = normals(0, (6, 40))
        x[0, 4] = x[1, :] = x[2, 0] = x[3, 33] = x[4, :39] = value
        np.testing.assert_array_equal(library.load().ipu_arg_max(x), tf.argmax(x, -1))

    def test_zeros_may_have_signs(self):
        tiny = np.float32(1.1754944e-38)
        x = np.float32(
            [[-0.0, 0.0, -1.0], [0.0, -0.0, 0.0], [-tiny, -0.0, -1.0], [-1.0, -0.0, -tiny]]
        )
        plain, signed = (
            library.load().ipu_arg_max(x, signed_zeros=each).numpy() for each in (False, True)
        )
        np.testing.assert_array_equal(plain, [0, 0, 1, 1])
        np.testing.assert_array_equal(signed, [1, 0, 0, 1])
        np.testing.assert_array_equal(signed, keras.ops.argmax(x, -1))

    @pytest.mark.parametrize("shape", [(), (3, 0)])
    def test_rows_without_columns(self, shape):
        with pytest.raises(tf.errors.InvalidArgumentError, match="at least one column"):
            library.load().ipu_arg_max(tf.zeros(shape))


# Images, filter, strides: read as lines (of one panel of channels, or several), and by phases.
CONVOLUTIONS = {
    "lines": ((2, 9, 7, 32), (3, 3, 32, 24), 1),
    "panels": ((2, 9, 7, 45), (3, 3, 45, 24), 1),
    "strides": ((2, 9, 7, 20), (3, 3, 20, 24), 2),
    "groups": ((2, 9, 7, 20), (3, 3, 10, 24), 1),
}


def fused_input_gradient(images, w, dy, *, bias=(), addend=(), features=(), **attributes):
    return library.load().ipu_conv2d_backprop_input_fused(
        images, w, dy, bias, addend, features, **attributes
    )


class TestInputGradient:
    @pytest.mark.fast_cells(4)
    @pytest.mark.parametrize(
        ("case", "part"),
        [
            *itertools.product(CONVOLUTIONS, [None]),
            *itertools.product(["lines", "panels", "strides"], [(0, 16), (3, 5)]),
        ],
    )
    @pytest.mark.parametrize("joined", ["", "relu", "add", "add_relu", "bias", "bias_relu"])
    def test_is_the_chain(self, case, joined, part):
        images, filters, stride = CONVOLUTIONS[case]
        rows, columns = (-(-size // stride) for size in images[1:3])
        w, dy = normals(1, filters), normals(2, (images[0], rows, columns, filters[3]))
        attributes = {"strides": [1, stride, stride, 1], "padding": "SAME"}
        stock = library.load().ipu_conv2d_backprop_input(images, w, dy, **attributes)
        if part is not None:
            first, channels = part
            stock = stock[..., first : first + channels]
            attributes |= {"first_channel": first, "channels": channels}
        others = {}
        if "bias" in joined:
            others["bias"] = [normals(5, (stock.shape[3],))]
            stock = stock + others["bias"][0]
            if "relu" in joined:
                attributes["relu"] = True
                stock = tf.nn.relu(stock)
        if "add" in joined:
            others["addend"] = [tf.constant(normals(4, stock.shape))]
            stock = tf.raw_ops.AddN(inputs=[stock, *others["addend"]])
        if joined.endswith("relu") and "bias" not in joined:
            others["features"] = [tf.nn.relu(normals(3, stock.shape))]
            stock = tf.raw_ops.ReluGrad(gradients=stock, features=others["features"][0])
        result = fused_input_gradient(images, w, dy, **others, **attributes)
        np.testing.assert_array_equal(result, stock)

    def test_some_channels_of_a_dilated_convolution(self):
        w, dy = normals(1, (3, 3, 20, 6)), normals(2, (2, 9, 7, 6))
        attributes = {"strides": [1] * 4, "padding": "SAME", "dilations": [1, 2, 2, 1]}
        whole = library.load().ipu_conv2d_backprop_input([2, 9, 7, 20], w, dy, **attributes)
        part = fused_input_gradient(
            [2, 9, 7, 20], w, dy, first_channel=7, channels=9, bias=[tf.ones(9)], **attributes
        )
        np.testing.assert_array_equal(part, whole[..., 7:16] + 1.0)

    @pytest.mark.parametrize("name", ["addend", "features"])
    def test_other_shapes(self, name):
        shapes = {"addend": [1, 4, 4, 2], "features": [1, 4, 4, 2], name: [1, 4, 3, 2]}
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=rf"{name} must have the shape of the result, \[1,4,4,2\]. Received: \[1,4,3,2\]",
        ):
            fused_input_gradient(
                [1, 4, 4, 2],
                tf.zeros([1, 1, 2, 3]),
                tf.zeros([1, 4, 4, 3]),
                addend=[tf.zeros(shapes["addend"])],
                features=[tf.zeros(shapes["features"])],
                strides=[1, 1, 1, 1],
                padding="SAME",
            )

    @pytest.mark.parametrize("channels", [2, 4])
    def test_other_channels(self, channels):
        received = f"channels 1 to {channels + 1} of {channels} in {channels // 2} groups"
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"Received: {received}"):
            fused_input_gradient(
                [1, 4, 4, channels],
                tf.zeros([1, 1, 2, 4]),
                tf.zeros([1, 4, 4, 4]),
                strides=[1, 1, 1, 1],
                padding="SAME",
                first_channel=1,
                channels=channels,
            )

    def test_a_bias_of_another_size(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="each of the 2 columns"):
            fused_input_gradient(
                [1, 4, 4, 2],
                tf.zeros([1, 1, 2, 3]),
                tf.zeros([1, 4, 4, 3]),
                bias=[tf.zeros([3])],
                strides=[1, 1, 1, 1],
                padding="SAME",
            )


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_a_convolution_before_a_relu_is_the_chain(case):
    images, filters, stride = CONVOLUTIONS[case]
    x, w = normals(1, images), normals(2, filters)
    attributes = {"strides": [1, stride, stride, 1], "padding": "SAME"}
    product = library.load().ipu_conv2d(x, w, **attributes)
    features = tf.nn.relu(normals(3, product.shape))
    np.testing.assert_array_equal(
        library.load().ipu_conv2d_relu_grad(x, w, features, **attributes),
        tf.raw_ops.ReluGrad(gradients=product, features=features),
    )


# Operands and which of them are transposed: products that are small, long, of rows that adjoin, of
# parts that are summed apart.
PRODUCTS = {
    "small": ((5, 7), (7, 40), {}),
    "row": ((1, 90), (40, 90), {"transpose_b": True}),
    "rows": ((300, 65), (65, 40), {}),
    "gradient": ((300, 65), (100, 65), {"transpose_b": True}),
    "long": ((150, 3000), (3000, 40), {}),
    "adjoining": ((65, 300), (65, 100), {"transpose_a": True}),
    "parts": ((9000, 30), (9000, 40), {"transpose_a": True}),
}


class TestProduct:
    @pytest.mark.fast_cells(4)
    @pytest.mark.parametrize("part", [None, (0, 16), (7, 25), (39, 1)])
    @pytest.mark.parametrize("joined", ["", "relu", "add", "add_relu"])
    @pytest.mark.parametrize("case", PRODUCTS)
    def test_is_the_chain(self, case, joined, part):
        a_shape, b_shape, attributes = PRODUCTS[case]
        a, b = normals(1, a_shape), normals(2, b_shape)
        stock = library.load().ipu_mat_mul(a, b, **attributes)
        if part is not None:
            first, columns = part
            stock = stock[:, first : first + columns]
            attributes = attributes | {"first_column": first, "columns": columns}
        addend, features = [], []
        if "add" in joined:
            addend = [tf.constant(normals(4, stock.shape))]
            stock = tf.raw_ops.AddN(inputs=[stock, *addend])
        if "relu" in joined:
            features = [tf.nn.relu(normals(3, stock.shape))]
            stock = tf.raw_ops.ReluGrad(gradients=stock, features=features[0])
        result = library.load().ipu_mat_mul_fused(a, b, addend, features, **attributes)
        np.testing.assert_array_equal(result, stock)

    @pytest.mark.parametrize("jitted", [False, True])
    @pytest.mark.parametrize("name", ["addend", "features"])
    def test_other_shapes(self, name, jitted):
        others = {"addend": [tf.zeros([2, 3])], "features": [tf.zeros([2, 3])]}
        others[name] = [tf.zeros([3, 2])]

        @tf.function(jit_compile=jitted, autograph=False)
        def run(a, b):
            return library.load().ipu_mat_mul_fused(a, b, **others)

        with pytest.raises(
            tf.errors.InvalidArgumentError, match=rf"{name} must have the shape of the product"
        ):
            run(tf.zeros([2, 5]), tf.zeros([5, 3]))

    def test_other_columns(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="3 columns. Received: columns 2 "):
            library.load().ipu_mat_mul_fused(
                tf.zeros([2, 5]), tf.zeros([5, 3]), [], [], first_column=2, columns=2
            )
