"""Slices of static size at places that depend on data, and their gradients."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

X = tf.random.stateless_normal([4, 8, 9, 3], seed=[1, 7])
PLACE = tf.constant(2)


@tf.function
def nested(x, i):
    return x[:, i : i + 3]


def loop(x, i):
    return tf.while_loop(
        lambda count, total: count < 3,
        lambda count, total: (count + 1, total + x[:, count + i : count + i + 2]),
        (0, tf.zeros([4, 2, 9, 3])),
        maximum_iterations=3,
    )[1]


SLICES = {
    "two axes": (lambda x, i: x[:, i : i + 3, i + 1 : i + 5, :], (4, 3, 4, 3)),
    "ellipsis": (lambda x, i: x[..., i : i + 3, :], (4, 8, 3, 3)),
    "with an index": (lambda x, i: x[2, i - 1 : i + 3], (4, 9, 3)),
    "from the end": (lambda x, i: x[:, 8 - i - 3 : 8 - i], (4, 3, 9, 3)),
    "blocks": (lambda x, i: x[:, i * 2 : (i + 1) * 2], (4, 2, 9, 3)),
    "in a function": (nested, (4, 3, 9, 3)),
    "in a loop": (loop, (4, 2, 9, 3)),
    "mapped": (lambda x, i: tf.map_fn(lambda image: image[i : i + 2], x), (4, 2, 9, 3)),
    "vectorised": (
        lambda x, i: tf.vectorized_map(lambda image: image[i : i + 2], x),
        (4, 2, 9, 3),
    ),
    "tf.slice": (lambda x, i: tf.slice(x, [0, i, 1, 0], [4, 3, 2, 3]), (4, 3, 2, 3)),
    "random_crop": (
        lambda x, i: tf.image.stateless_random_crop(x, [4, 5, 5, 3], seed=[1, 2]),
        (4, 5, 5, 3),
    ),
}


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.fast_cells(1)
def test_values_and_gradients_equal_stock(name):
    slice_, shape = SLICES[name]
    static_shapes = []

    def step(x, i):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = slice_(tf.tanh(tf.matmul(x, tf.ones([3, 3]))), i)
            loss = tf.reduce_sum(y**2)
        static_shapes.append(y.shape)
        return y, tape.gradient(loss, x)

    strategy = IPUStrategy(enable_keras_extensions=False)
    ours = strategy.run(tf.function(step), args=(X, PLACE))
    assert static_shapes == [shape]
    for value, expected in zip(ours, tf.function(step)(X, PLACE), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    assert strategy.report().programs[0].device is not None


@pytest.mark.parametrize(
    "slice_",
    [
        lambda x, i: x[:, :i],
        lambda x, i: x[:, i : i + i],
        lambda x, i: x[:, i : i + 20],
        lambda x, i: x[:, i : i + 4 : 2],
    ],
    ids=["to a place", "between two places", "longer than the tensor", "with steps"],
)
def test_a_size_that_depends_on_data_is_refused(slice_):
    strategy = IPUStrategy(enable_keras_extensions=False)
    with pytest.raises(ValueError, match=r"StridedSlice\): use `tf\.slice"):
        strategy.run(tf.function(lambda x, i: slice_(x, i)), args=(X, PLACE))


def test_a_slice_beyond_the_tensor_is_an_error_where_it_runs():
    strategy = IPUStrategy(enable_keras_extensions=False)
    step = tf.function(lambda x, i: x[:, i : i + 3])
    assert strategy.run(step, args=(X, tf.constant(5))).shape == (4, 3, 9, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected"):
        strategy.run(step, args=(X, tf.constant(6)))


def test_slices_at_constant_places_add_no_ops():
    function = tf.function(lambda x: x[:, 1:4, ..., 2])
    stock = function.get_concrete_function(X).graph.get_operations()
    strategy = IPUStrategy(enable_keras_extensions=False)
    run = tf.function(lambda x: strategy.run(lambda x: x[:, 1:4, ..., 2], args=(x,)))
    ours = run.get_concrete_function(X).graph.get_operations()
    assert [op.type for op in ours] == [op.type for op in stock]


def test_a_slice_may_have_no_elements():
    @tf.function
    def program(x):
        return tf.concat([x[0:0] + 1.0, 2.0 * x], 0), x[8:]

    joined, empty = IPUStrategy().run(program, args=(tf.ones([8]),))
    np.testing.assert_array_equal(joined, np.full(8, 2.0))
    assert empty.shape == (0,)
