"""The vendor's functions outside of Keras: values and gradients in the scope."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops import (
    control_flow_ops,
    functional_ops,
    image_ops,
    math_ops,
    nn_ops,
    rand_ops,
    slicing_ops,
)

DTYPES = ("float32", "float16")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


REFERENCES = {
    "gelu": (nn_ops.gelu, tanh_gelu),
    "hard_sigmoid": (nn_ops.hard_sigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "swish": (nn_ops.swish, lambda x: x * sigmoid(x)),
    "softmax": (
        lambda x: nn_ops.softmax(x, stable=True),
        lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    ),
}


def in_scope(function, *arguments):
    """Runs a function, and the gradient of its weighted sum for the first argument."""
    strategy = IPUStrategy()

    @tf.function
    def both(x, *others):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x, *others)
            weights = tf.reshape(tf.range(tf.size(result)), result.shape)
            total = tf.reduce_sum(result * tf.cast(weights, result.dtype))
        return result, tf.convert_to_tensor(tape.gradient(total, x))

    return [value.numpy() for value in strategy.run(both, arguments)]


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_activations_have_the_values_and_gradients_of_their_formulas(name, dtype):
    function, reference = REFERENCES[name]
    x = np.linspace(-4, 4, 12).reshape(3, 4)
    value, gradient = in_scope(function, tf.constant(x, dtype))
    step = 1e-6
    weights = np.arange(12).reshape(3, 4)
    expected = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[index] = step
        change = reference(x + moved) - reference(x - moved)
        expected[index] = (weights * change).sum() / (2 * step)
    tolerance = {"float32": 1e-5, "float16": 1e-2}[dtype]
    np.testing.assert_allclose(value, reference(x), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("of_gradients", [False, True])
def test_a_barrier_changes_no_value(of_gradients):
    def function(x):
        pair = control_flow_ops.barrier({"a": x, "b": 2 * x}, of_gradients)
        return pair["a"] + pair["b"]

    value, gradient = in_scope(function, tf.constant([1.0, 2.0]))
    np.testing.assert_array_equal(value, [3, 6])
    np.testing.assert_array_equal(gradient, [0, 3])


@pytest.mark.parametrize("dtype", [*DTYPES, "uint8"])
def test_images_are_normalised_and_padded(dtype):
    image = np.arange(24).reshape(2, 4, 3).astype(dtype)
    offsets, scales = np.array([1.0, 2, 3]), np.array([0.5, 0.25, 2])
    strategy = IPUStrategy()
    function = tf.function(lambda x: image_ops.normalise_image(x, offsets, scales, scale=0.5))
    value = strategy.run(function, (tf.constant(image),))
    assert value.dtype == ("float16" if dtype == "uint8" else dtype)
    np.testing.assert_array_equal(value[..., :3], (image * 0.5 - offsets) * scales)
    np.testing.assert_array_equal(value[..., 3], np.zeros((2, 4)))


@pytest.mark.parametrize(
    ("image", "offsets", "message"),
    [
        (np.zeros((2, 3), "int32"), [0, 0, 0], "must be float16, float32 or uint8.*int32"),
        (np.zeros((2, 4), "float32"), [0, 0, 0], r"last axis .* size 3.*\(2, 4\)"),
        (np.zeros((2, 3), "float32"), [0, 0], r"`channel_offsets` must have shape \[3\]"),
    ],
)
def test_other_images_are_refused(image, offsets, message):
    with pytest.raises(ValueError, match=message):
        image_ops.normalise_image(image, offsets, [1, 1, 1])


def copied(dst, src, runs, zero_unused):
    """The definition of `sequence_slice`, row by row."""
    result = np.zeros_like(dst) if zero_unused else dst.copy()
    for count, src_offset, dst_offset in zip(*runs, strict=True):
        for row in range(count):
            if dst_offset + row < len(dst):
                result[dst_offset + row] = src[src_offset + row]
    return result


RUNS = ([2, 1, 2], [3, 0, 1], [0, 4, 3])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("zero_unused", [False, True])
def test_runs_of_rows_are_copied(zero_unused):
    dst = np.arange(14, dtype="float32").reshape(7, 2)
    src = 100 + np.arange(10, dtype="float32").reshape(5, 2)
    value, gradient = in_scope(
        lambda source: slicing_ops.sequence_slice(dst, source, *RUNS, zero_unused), tf.constant(src)
    )
    np.testing.assert_array_equal(value, copied(dst, src, RUNS, zero_unused))
    came_from = copied(np.full((7, 1), -1), np.arange(5)[:, None], RUNS, zero_unused=False)[:, 0]
    expected = np.zeros_like(src)
    for row, source in enumerate(came_from):
        if source >= 0:
            expected[source] += np.arange(14).reshape(7, 2)[row]
    np.testing.assert_array_equal(gradient, expected)


def test_runs_are_packed_and_unpacked():
    src = np.arange(10, dtype="float32").reshape(5, 2)
    strategy = IPUStrategy()
    unpacked = strategy.run(
        tf.function(lambda x: slicing_ops.sequence_slice_unpack(x, [2, 1], [3, 0], 5)),
        (tf.constant(src),),
    )
    expected = copied(np.zeros((5, 2), "float32"), src, ([2, 1], [3, 0], [0, 2]), True)
    np.testing.assert_array_equal(unpacked, expected)
    dst = -np.ones((4, 2), "float32")
    packed = strategy.run(
        tf.function(lambda x: slicing_ops.sequence_slice_pack(dst, x, [2, 1], [2, 0], False)),
        (unpacked,),
    )
    np.testing.assert_array_equal(
        packed, copied(dst, expected, ([2, 1], [0, 2], [2, 0]), zero_unused=False)
    )


def test_runs_of_other_shapes_are_refused():
    row = np.zeros((3, 2), "float32")
    with pytest.raises(ValueError, match=r"the same beyond the rows.*\(3, 2\) and \(3, 1\)"):
        slicing_ops.sequence_slice(row, row[:, :1], *RUNS, True)
    with pytest.raises(ValueError, match=r"lists of one length.*\(1,\), \(2,\), \(1,\)"):
        slicing_ops.sequence_slice(row, row, [1], [0, 0], [0], True)


def test_segments_are_added_up():
    data = np.arange(8, dtype="float32").reshape(4, 2)
    value, gradient = in_scope(
        lambda x: math_ops.segment_sum(x, tf.constant([0, 0, 2, 2]), 4), tf.constant(data)
    )
    np.testing.assert_array_equal(value, [[2, 4], [0, 0], [10, 12], [0, 0]])
    np.testing.assert_array_equal(gradient, [[0, 1], [0, 1], [4, 5], [4, 5]])


@pytest.mark.slow
def test_dropout_with_a_seed_has_one_mask_in_both_directions():
    x = tf.ones((40, 50))
    value, gradient = in_scope(lambda x: rand_ops.dropout(x, 0.25, seed=[1, 2]), x)
    kept = value != 0
    np.testing.assert_allclose(value[kept], 1 / 0.75, rtol=1e-6)
    np.testing.assert_array_equal(gradient != 0, kept & (np.arange(2000).reshape(40, 50) > 0))
    assert 0.7 < kept.mean() < 0.8
    again, _ = in_scope(lambda x: rand_ops.dropout(x, 0.25, seed=[1, 2]), x)
    np.testing.assert_array_equal(value, again)
    shared, _ = in_scope(lambda x: rand_ops.dropout(x, noise_shape=(40, 1)), x)
    assert rand_ops.dropout(x, noise_shape=[], ref=True).shape == x.shape
    with pytest.raises(TypeError, match="unexpected keyword argument 'noise'"):
        rand_ops.dropout(x, noise=[])
    assert set(np.unique((shared != 0).sum(1))) == {0, 50}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.0}, "from 0 up to but not including 1.*rate=1.0"),
        ({"noise_shape": (40,)}, "must have the rank of the input"),
        ({"noise_shape": (40, 7)}, r"noise_shape=\(40, 7\), input of shape \(40, 50\)"),
        ({"seed": [1]}, r"the seed must have shape \[2\]"),
    ],
)
def test_dropout_refuses_other_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        rand_ops.dropout(tf.ones((40, 50)), **options)


def test_calls_of_an_outlined_function_share_its_variables_in_a_session():
    v1 = tf.compat.v1

    @functional_ops.outlined_function
    def block(x):
        with v1.variable_scope("block", use_resource=True):
            return tf.matmul(x, v1.get_variable("kernel", [2, 2], initializer=v1.ones_initializer))

    with tf.Graph().as_default(), v1.Session() as session:
        twice = block(block(tf.ones([3, 2])))
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(twice), np.full([3, 2], 4.0))
        assert [variable.name for variable in v1.global_variables()] == ["block/kernel:0"]
        with pytest.raises(ValueError, match="block/kernel already exists"):
            functional_ops.outlined_function(lambda: v1.get_variable("block/kernel", [2, 2]))()


@pytest.mark.slow
def test_outlined_functions_and_groups_of_convolutions_compute_as_written_out():
    @functional_ops.outlined_function
    def block(x):
        return tf.nn.relu(x) * 2

    @functional_ops.outlined_function(unique_sharding=True, name="named")
    def other(x):
        return x + 1

    @nn_ops.multi_conv(options={"perConvReservedTiles": "50"})
    def convolutions(x):
        image = tf.reshape(x, (1, 2, 2, 1))
        return tf.nn.conv2d(image, tf.ones((1, 1, 1, 1)), 1, "VALID")

    value, gradient = in_scope(
        lambda x: tf.reshape(convolutions(other(block(block(x)))), (4,)),
        tf.constant([-1.0, 1, 2, 3]),
    )
    np.testing.assert_array_equal(value, [1, 5, 9, 13])
    np.testing.assert_array_equal(gradient, [0, 4, 8, 12])
    with pytest.raises(TypeError, match="must map names of options to their values"):
        nn_ops.multi_conv(options={"a": 1})


def test_convolutions_that_depend_on_each_other_are_refused():
    kernel = tf.ones((1, 1, 2, 2))

    @nn_ops.multi_conv
    def independent(x, y):
        return tf.nn.conv2d(x, kernel, 1, "SAME"), tf.nn.relu(tf.nn.conv2d(y, kernel, 1, "SAME"))

    @nn_ops.multi_conv
    def dependent(x):
        return tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")), kernel, 1, "SAME")

    strategy, image = IPUStrategy(), tf.ones((1, 2, 2, 2))
    first, second = strategy.run(tf.function(lambda x: independent(*independent(x, x))), (image,))
    assert first[0, 0, 0, 0] == second[0, 0, 0, 0] == 4
    message = r"must not depend on each other. Received: '.*Conv2D_1' reads .* '.*Conv2D'"
    with pytest.raises(tf.errors.FailedPreconditionError, match=message):
        strategy.run(tf.function(dependent), (image,))
