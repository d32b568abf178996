"""Tile ops in functions that XLA compiles: the same bits, state and errors as without."""

import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import ops
from ipu_tf.ops.kernels import library
from tests.ops.tile_cases import normals

CONV = {"strides": [1, 2, 1, 1], "padding": "SAME", "plan": [1, 1, 2, 1, 1, 2, 1, 1, 16]}
DEPTHWISE = {"strides": [1, 1, 1, 1], "padding": "VALID"}
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
MATMUL_PLAN = [1, 2, 2, 2, 16]
IMAGES, FILTER, RESULT = (2, 9, 7, 33), (3, 3, 33, 24), (2, 5, 7, 24)
DEPTHWISE_FILTER, DEPTHWISE_RESULT = (3, 3, 33, 2), (2, 7, 5, 66)

# The attributes and the shapes of the operands of every op that takes a plan.
CASES = {
    "ipu_mat_mul": ({"transpose_a": True, "plan": MATMUL_PLAN}, ((40, 5), (40, 7))),
    "ipu_batch_mat_mul": ({"plan": MATMUL_PLAN}, ((2, 1, 5, 40), (3, 40, 7))),
    "ipu_batch_mat_mul_v3": ({"plan": MATMUL_PLAN}, ((2, 1, 5, 40), (3, 40, 7))),
    "ipu_einsum": ({"equation": "abc,cd->dab", "plan": MATMUL_PLAN}, ((2, 5, 40), (40, 7))),
    "ipu_conv2d": (CONV, (IMAGES, FILTER)),
    "ipu_conv2d_backprop_input": (CONV, (FILTER, RESULT)),
    "ipu_conv2d_backprop_filter": (CONV, (IMAGES, RESULT)),
    "ipu_depthwise_conv2d_native": (DEPTHWISE, (IMAGES, DEPTHWISE_FILTER)),
    "ipu_depthwise_conv2d_native_backprop_input": (DEPTHWISE, (DEPTHWISE_FILTER, DEPTHWISE_RESULT)),
    "ipu_depthwise_conv2d_native_backprop_filter": (DEPTHWISE, (IMAGES, DEPTHWISE_RESULT)),
}
STEPS, STATE = (3, 4, 5), (4, 6)
"""Inputs of a recurrent layer, and its state."""
ROWS = (*IMAGES[:3], 1)
"""One value a row of images."""
CHANNELS = (*IMAGES[:3], 9)
"""Some channels of them."""
STATES, GATES = (4, 4, 6), (3, 4, 24)
LSTM_KERNELS, GRU_KERNELS = ((5, 24), (6, 24)), ((5, 18), (6, 18))
# Ops that are joined of several, for float32 alone.
FUSED_CASES = {
    "ipu_mat_mul_bias": ({"relu": True}, ((5, 40), (40, 7), (7,))),
    "ipu_reshaped_mat_mul_bias": (
        {"relu": True, "shape": [2, 5, 3, 7]},
        ((2, 5, 40), (40, 21), (3, 7)),
    ),
    "ipu_mat_mul_fused": (
        {"transpose_a": True, "plan": MATMUL_PLAN, "first_column": 2, "columns": 4},
        ((40, 5), (40, 7), (5, 4), (5, 4)),
    ),
    "ipu_mat_mul_update": (
        {"transpose_a": True, "plan": MATMUL_PLAN},
        ((40, 5), (40, 7), (5, 7), ()),
    ),
    "ipu_conv2d_bias": (CONV | {"relu": True}, (IMAGES, FILTER, FILTER[3:])),
    "ipu_conv2d_relu_grad": (CONV, (IMAGES, FILTER, RESULT)),
    "ipu_conv2d_backprop_input_fused": (
        CONV | {"first_channel": 16, "channels": 9},
        (FILTER, RESULT, CHANNELS, CHANNELS),
    ),
    "ipu_conv2d_backprop_filter_with_bias": (CONV, (IMAGES, RESULT)),
    "ipu_moments": ({"rank": 4}, (IMAGES,)),
    "ipu_column_dots": ({"rank": 4, "keep_dims": False}, (IMAGES, IMAGES)),
    "ipu_column_sums": ({"axes": 2, "keep_dims": True}, (IMAGES,)),
    "ipu_scale_shift": ({"relu": True}, (IMAGES, IMAGES[3:], IMAGES[3:])),
    "ipu_scale_shift_add": ({"relu": True}, (IMAGES, IMAGES, IMAGES[3:], IMAGES[3:])),
    "ipu_norm_gradient": ({"rows": 126}, (IMAGES, IMAGES, *(((1, 1, 1, 33),) * 4))),
    "ipu_scaled_difference": ({"square": True}, (IMAGES, IMAGES, ())),
    "ipu_adam_step": ({}, (IMAGES, IMAGES, (), ())),
    "ipu_adam_update": ({}, (IMAGES, IMAGES, IMAGES, (), ())),
    "ipu_arg_max": ({"output_type": tf.int32, "signed_zeros": True}, (IMAGES,)),
    "ipu_bias_add_grad": ({}, (IMAGES,)),
    "ipu_relu6_grad": ({}, (IMAGES, IMAGES)),
    "ipu_softmax": ({}, (IMAGES,)),
    "ipu_scaled_update": ({}, (IMAGES, IMAGES, ())),
    "ipu_softmax_grad": ({}, (IMAGES, IMAGES)),
    "ipu_swap_rows": ({"rank": 4}, (IMAGES,)),
    "ipu_tree_sum": ({}, (IMAGES,) * 5),
    "ipu_softmax_dropout": ({}, (IMAGES, ())),
    "ipu_softmax_dropout_grad": ({}, (IMAGES, IMAGES, ())),
    "ipu_transposed_mat_mul": ({"equation": "aMbK,aNbK->abNM"}, ((2, 5, 3, 40), (2, 7, 3, 40))),
    "ipu_layer_norm": ({"axes": 1}, (IMAGES, IMAGES[3:], IMAGES[3:], ())),
    "ipu_layer_norm_grad": (
        {"axes": 1, "rank": 4},
        (IMAGES, IMAGES, IMAGES[3:], ROWS, ROWS, IMAGES),
    ),
    "ipu_gelu": ({"approximate": True}, (IMAGES,)),
    "ipu_gelu_grad": ({"approximate": False}, (IMAGES, IMAGES)),
    "ipu_lstm": ({"steps": 3}, (STEPS, STATE, STATE, *LSTM_KERNELS, (24,))),
    "ipu_lstm_grad": (
        {"steps": 3},
        (STEPS, *LSTM_KERNELS, STATES, STATES, GATES, (3, *STATE), STATE, STATE),
    ),
    "ipu_gru": ({"steps": 3, "last_only": True}, (STEPS, STATE, *GRU_KERNELS, (2, 18))),
    "ipu_gru_grad": (
        {"steps": 3, "last_only": True},
        (STEPS, *GRU_KERNELS, STATES, GATES, (1, *STATE), STATE),
    ),
    "ipu_max_pool_grad": (POOL | {"relu": True}, ((2, 6, 4, 20), (2, 3, 2, 20), (2, 3, 2, 20))),
}
KEPT = normals(9, IMAGES) > 0
# An input that holds sizes or a mask, and its value.
GIVEN = {
    "ipu_conv2d_backprop_input": (0, IMAGES),
    "ipu_conv2d_backprop_input_fused": (0, IMAGES),
    "ipu_conv2d_backprop_filter": (1, FILTER),
    "ipu_conv2d_backprop_filter_with_bias": (1, FILTER),
    "ipu_depthwise_conv2d_native_backprop_input": (0, IMAGES),
    "ipu_depthwise_conv2d_native_backprop_filter": (1, DEPTHWISE_FILTER),
    "ipu_softmax_dropout": (1, KEPT),
    "ipu_softmax_dropout_grad": (2, KEPT),
}


def call(op, operands, **numerics):
    """Runs an op of CASES or FUSED_CASES."""
    attributes, _ = (CASES | FUSED_CASES)[op]
    inputs = list(operands)
    if op in GIVEN:
        inputs.insert(*GIVEN[op])
    if op == "ipu_batch_mat_mul_v3":
        numerics["Tout"] = inputs[0].dtype
    if op.endswith("_update"):
        inputs.append([])
    if op.endswith("_fused"):  # No bias, an addend, features.
        inputs[-2:] = [[each] for each in inputs[-2:]]
    if op == "ipu_conv2d_backprop_input_fused":
        inputs.insert(3, [])
    if op in {"ipu_einsum", "ipu_transposed_mat_mul", "ipu_tree_sum"}:
        inputs = [inputs]
    if op == "ipu_layer_norm_grad":
        inputs[5:] = [inputs[5:]]
    return getattr(library.load(), op)(*inputs, **attributes, **numerics)


def jitted(fn):
    return tf.function(fn, jit_compile=True, autograph=False)


def stochastic_product(a, b):
    return library.load().ipu_mat_mul(a, b, rounding="stochastic", stream=5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", CASES)
def test_bits_are_those_of_the_kernel(op, dtype):
    def both(*operands):
        rounded = call(op, operands, partials="float16", rounding="stochastic", stream=3)
        return call(op, operands), rounded

    _, shapes = CASES[op]
    operands = [tf.constant(normals(seed, shape, dtype)) for seed, shape in enumerate(shapes)]
    library.reset_seed(1)
    expected = both(*operands)
    library.reset_seed(1)
    for result, reference in zip(jitted(both)(*operands), expected, strict=True):
        assert result.shape == reference.shape
        np.testing.assert_array_equal(result, reference)


@pytest.mark.parametrize("op", FUSED_CASES)
def test_bits_of_a_joined_op_are_those_of_the_kernel(op):
    _, shapes = FUSED_CASES[op]
    operands = [tf.constant(normals(seed, shape)) for seed, shape in enumerate(shapes)]
    result = jitted(lambda *values: call(op, values))(*operands)
    for part, reference in zip(
        tf.nest.flatten(result), tf.nest.flatten(call(op, operands)), strict=True
    ):
        np.testing.assert_array_equal(part, reference)


def test_updates_take_the_place_of_weights_in_a_loop():
    kernels = library.load()
    x, dy, weights = (tf.constant(normals(n, (8, 8))) for n in range(3))
    rates = [tf.constant(0.1), tf.constant(1e-3)]

    def step(w, mean):
        product = kernels.ipu_mat_mul(x, w, plan=[])  # Reads weights that change in place.
        mean = kernels.ipu_scaled_difference(product, mean, rates[0], square=True, add=True)
        w = kernels.ipu_mat_mul_update(dy, product, w, rates[1], [mean], plan=[])
        w = kernels.ipu_scaled_update(w, product, rates[1], [])
        return kernels.ipu_adam_update(w, product, mean, *rates, []), mean

    def loop(w):
        def body(i, *state):
            return i + 1, *step(*state)

        start = (0, w, tf.square(w))
        return tf.while_loop(lambda i, *_: i < 3, body, start, maximum_iterations=3)[1:]

    expected = weights, tf.square(weights)
    for _ in range(3):
        expected = step(*expected)
    for ours, other in zip(jitted(loop)(weights), expected, strict=True):
        np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_bits_of_a_cast(rounding):
    def cast(x):
        return library.load().ipu_cast(x, DstT=tf.float16, rounding=rounding, stream=4)

    x = tf.constant(normals(0, (300,), scale=3e4))
    library.reset_seed(1)
    expected = cast(x)
    library.reset_seed(1)
    np.testing.assert_array_equal(jitted(cast)(x), expected)


def test_bits_of_dropout():
    def dropout(x, key, counter):
        mask = library.load().ipu_dropout_mask(key, counter, rate=0.3, shape=x.shape)
        return library.load().ipu_masked_scale(x, mask, 1.0 / 0.7)

    operands = (
        tf.constant(normals(0, (31, 17))),
        tf.constant([2**63 + 5], tf.uint64),
        tf.constant([2**64 - 9, 4], tf.uint64),
    )
    np.testing.assert_array_equal(jitted(dropout)(*operands), dropout(*operands))


def test_masks_of_a_generator_go_on_from_call_to_call():
    def mask():
        return library.load().ipu_stateful_dropout_mask(rate=0.3, shape=[31, 17], seed=7, seed2=1)

    compiled, plain = jitted(mask), tf.function(mask, autograph=False)
    masks = [(compiled(), plain()) for _ in range(3)]
    for ours, reference in masks:
        np.testing.assert_array_equal(ours, reference)
    assert len({ours.numpy().tobytes() for ours, _ in masks}) == 3


def test_bits_of_a_loss():
    def loss(scores):
        return tuple(library.load().ipu_sparse_softmax_loss(scores, tf.constant([3, 0, 16, 5])))

    x = tf.constant(normals(0, (4, 17)))
    for result, reference in zip(jitted(loss)(x), loss(x), strict=True):
        np.testing.assert_array_equal(result, reference)


def test_bits_of_segments():
    ids = tf.constant([2, 0, -1, 2])

    def segments(x):
        sums = library.load().ipu_segment_sum(x, ids, 3)
        picked = library.load().ipu_gather_segment_sum(x, tf.maximum(ids, 0), ids, ids, 3)
        return sums, picked, library.load().ipu_gather_rows(sums, tf.maximum(ids, 0), ids)

    x = tf.constant(normals(0, (4, 17)))
    for result, reference in zip(jitted(segments)(x), segments(x), strict=True):
        np.testing.assert_array_equal(result, reference)


# They move tensors between replicas, or between host and device, or hold values for the host; XLA
# has no such state.
APART = re.compile(
    r"ipu_(keep_)?(replica|infeed|dataset|read_dataset|outfeed|enqueue|dequeue|check_feed"
    r"|check_number|host_kernel|call_application|nonfinite_flag|replay_|rewind)"
)


def test_no_op_of_the_library_is_left_out():
    functions = {name for name in dir(library.load()) if name.startswith("ipu_")}
    functions = {name for name in functions if not APART.match(name)}
    ops_of_library = {name for name in functions if not name.endswith("_eager_fallback")}
    assert ops_of_library == CASES.keys() | FUSED_CASES.keys() | {
        "ipu_cast",
        "ipu_dropout_mask",
        "ipu_floating_point_check",
        "ipu_gather_rows",
        "ipu_gather_segment_sum",
        "ipu_index_check",
        "ipu_masked_scale",
        "ipu_nonfinite_replay",
        "ipu_segment_sum",
        "ipu_sparse_softmax_loss",
        "ipu_stateful_dropout_mask",
        # tests/poplar/test_user_ops.py has both.
        "ipu_stateless_user_op",
        "ipu_user_op",
    }


def test_an_operand_that_xla_transposes_arrives_row_major():
    a, b = tf.constant(normals(0, (40, 5))), tf.constant(normals(1, (40, 7)))

    def product(a, b):
        return library.load().ipu_mat_mul(tf.transpose(a) * 2.0, b + 1.0, plan=MATMUL_PLAN)

    np.testing.assert_array_equal(jitted(product)(a, b), product(a, b))


class TestState:
    """Stochastic rounding draws anew at every execution, so none may be merged or hoisted."""

    operands = (
        tf.constant(normals(0, (8, 24), "float16")),
        tf.constant(normals(1, (24, 8), "float16")),
    )

    def in_turn(self, executions):
        library.reset_seed(1)
        return np.stack([stochastic_product(*self.operands) for _ in range(executions)])

    def test_each_iteration_of_a_loop_draws(self):
        def loop(a, b):
            def body(i, products):
                return i + 1, products.write(i, stochastic_product(a, b))

            products = tf.TensorArray(a.dtype, 3, element_shape=(8, 8))
            return tf.while_loop(lambda i, _: i < 3, body, (0, products))[1].stack()

        expected = self.in_turn(3)
        library.reset_seed(1)
        np.testing.assert_array_equal(jitted(loop)(*self.operands), expected)
        assert not np.array_equal(expected[0], expected[1])

    def test_equal_calls_are_not_merged(self):
        product = tf.function(stochastic_product)
        twice = jitted(lambda a, b: (product(a, b), product(a, b)))
        expected = self.in_turn(2)
        library.reset_seed(1)
        results = sorted(np.asarray(result).tobytes() for result in twice(*self.operands))
        assert results == sorted(product.tobytes() for product in expected)

    def test_each_call_of_the_function_draws(self):
        product = jitted(stochastic_product)
        expected = self.in_turn(2)
        library.reset_seed(1)
        np.testing.assert_array_equal(product(*self.operands), expected[0])
        np.testing.assert_array_equal(product(*self.operands), expected[1])


class TestFloatingPointCheck:
    @staticmethod
    def logarithm(x):
        y = tf.math.log(x)
        library.load().ipu_floating_point_check(
            [x], [y], op_name='a "quoted\\name"', op_type="Log", inv=True, div0=True, oflo=True
        )
        return tf.constant(1.0)

    def test_good_values_pass(self):
        assert jitted(self.logarithm)(tf.constant([1.0, 2.0])) == 1.0

    @pytest.mark.parametrize(
        ("value", "what"), [(0.0, "division by zero"), (-1.0, "invalid operation")]
    )
    def test_exception_fails_the_program(self, value, what):
        expected = rf'Floating-point exception \({what}\) in op \'a "quoted\\name"\' \(Log\)'
        with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
            jitted(self.logarithm)(tf.constant([1.0, value]))

    def test_program_runs_again_after_an_exception(self):
        logarithm = jitted(self.logarithm)
        with pytest.raises(tf.errors.InvalidArgumentError):
            logarithm(tf.constant([1.0, 0.0]))
        assert logarithm(tf.constant([1.0, 2.0])) == 1.0


class TestErrors:
    def test_plan_that_does_not_fit(self):
        @jitted
        def product(a, b):
            return library.load().ipu_mat_mul(a, b, plan=[1, 9, 1, 1, 8], name="dense/MatMul")

        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="IpuMatMul 'dense/MatMul': the plan splits rows of 5 elements into 9 parts",
        ):
            product(tf.ones([5, 4]), tf.ones([4, 3]))

    def test_attribute_that_the_kernel_refuses(self):
        @jitted
        def product(a, b):
            return library.load().ipu_mat_mul(a, b, plan=[1, 2])

        with pytest.raises(tf.errors.InvalidArgumentError, match="a plan has 5 entries"):
            product(tf.ones([5, 4]), tf.ones([4, 3]))

    def test_sizes_that_are_not_constant(self):
        @jitted
        def gradient(sizes, w, dy):
            return library.load().ipu_conv2d_backprop_input(
                sizes, w, dy, strides=[1, 1, 1, 1], padding="SAME", name="conv/grad"
            )

        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="IpuConv2DBackpropInput 'conv/grad': XLA needs the shape of the result when it "
            "compiles the op; give sizes as constants",
        ):
            gradient(tf.constant([1, 4, 4, 2]), tf.ones([3, 3, 2, 2]), tf.ones([1, 4, 4, 2]))


def test_sizes_may_be_computed_from_shapes():
    def gradient(x, w, dy):
        return library.load().ipu_conv2d_backprop_input(
            tf.shape(x), w, dy, strides=[1, 1, 1, 1], padding="SAME"
        )

    operands = [
        tf.constant(normals(i, s)) for i, s in enumerate([(2, 4, 4, 3), (3, 3, 3, 2), (2, 4, 4, 2)])
    ]
    np.testing.assert_array_equal(jitted(gradient)(*operands), gradient(*operands))


def test_gradients_through_the_python_faces():
    def step(x, w, dense):
        with tf.GradientTape() as tape:
            tape.watch((x, w, dense))
            y = tf.nn.relu(ops.conv2d(x, w, strides=2, padding="SAME"))
            y = ops.matmul(tf.reshape(y, [2, -1]), dense)
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, (x, w, dense))

    shapes = [(2, 6, 6, 3), (3, 3, 3, 4), (36, 5)]
    operands = [tf.constant(normals(i, shape)) for i, shape in enumerate(shapes)]
    for result, expected in zip(jitted(step)(*operands), step(*operands), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_gradient_of_a_loop():
    def loop(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = tf.while_loop(
                lambda i, _: i < 3,
                lambda i, y: (i + 1, ops.conv2d(y, w, strides=1, padding="SAME")),
                (0, x),
                maximum_iterations=3,
            )[1]
        return tape.gradient(y, w)

    x, w = tf.constant(normals(0, (2, 4, 4, 3))), tf.constant(normals(1, (3, 3, 3, 3)))
    expected = tf.function(loop)(x, w)
    np.testing.assert_allclose(jitted(loop)(x, w), expected, rtol=1e-5, atol=1e-4)


_LOADED_LATE = """
import tensorflow as tf
assert tf.function(lambda x: x + 1.0, jit_compile=True)(1.0) == 2.0
from ipu_tf import ops
x = tf.ones([4, 4])
assert tf.function(ops.matmul, jit_compile=True)(x, x)[0, 0] == 4.0
"""


@pytest.mark.slow
def test_library_may_be_loaded_after_the_first_jitted_function():
    command = [sys.executable, "-c", _LOADED_LATE]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
