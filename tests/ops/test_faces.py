"""The Python faces: values and gradients of their `tf.` twins, plans, errors."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, config, ops, scopes
from ipu_tf.planner.plan import PlanDoesNotFit


def random(*shape, seed=0, dtype=tf.float32):
    return tf.cast(tf.random.stateless_normal(shape, seed=[seed, 3]), dtype)


def gradients(fn, *args):
    with tf.GradientTape() as tape:
        tape.watch(args)
        y = fn(*args)
    return (y, *tape.gradient(y, args))


def assert_same(ours, stock, *args, rtol=1e-5, atol=1e-5):
    """Checks values and gradients, eagerly and in a tf.function."""
    expected = gradients(stock, *args)
    for run in (gradients, tf.function(gradients)):
        for mine, reference in zip(run(ours, *args), expected, strict=True):
            np.testing.assert_allclose(mine, reference, rtol=rtol, atol=atol)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul(transpose_a, transpose_b):
    a = random(*((7, 5) if transpose_a else (5, 7)), seed=1)
    b = random(*((3, 7) if transpose_b else (7, 3)), seed=2)
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    assert_same(lambda a, b: ops.matmul(a, b, **flags), lambda a, b: tf.matmul(a, b, **flags), a, b)


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
def test_batch_matmul_broadcasts(adj_x, adj_y):
    x = random(2, 1, *((7, 5) if adj_x else (5, 7)), seed=1)
    y = random(4, *((3, 7) if adj_y else (7, 3)), seed=2)
    assert_same(
        lambda x, y: ops.batch_matmul(x, y, adj_x=adj_x, adj_y=adj_y),
        lambda x, y: tf.matmul(x, y, transpose_a=adj_x, transpose_b=adj_y),
        x,
        y,
    )


def test_matmul_of_more_than_two_dimensions_is_batched():
    x, y = random(3, 4, 5, seed=1), random(3, 5, 2, seed=2)
    np.testing.assert_allclose(ops.matmul(x, y), tf.matmul(x, y), rtol=1e-5, atol=1e-5)


def stock_conv2d(x, w, strides, padding, dilations):
    """`tf.nn.conv2d`, in terms whose gradients TensorFlow has on this processor too.

    It has none for groups and for dilations: groups become convolutions of their own, and a
    dilated filter one with zeros.
    """
    if dilations > 1:
        rows, columns, *channels = w.shape
        spread = tf.reshape(w, [rows, 1, columns, 1, *channels])
        zeros = [[0, 0], [0, dilations - 1], [0, 0], [0, dilations - 1], [0, 0], [0, 0]]
        w = tf.reshape(tf.pad(spread, zeros), [rows * dilations, columns * dilations, *channels])
        w = w[: 1 - dilations, : 1 - dilations]
    groups = x.shape[3] // w.shape[2]
    parts = zip(tf.split(x, groups, 3), tf.split(w, groups, 3), strict=True)
    return tf.concat([tf.nn.conv2d(p, f, strides, padding) for p, f in parts], 3)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [2, 1], [0, 3], [0, 0]]], ids=str)
@pytest.mark.parametrize(("strides", "dilations"), [(1, 1), (2, 1), ([1, 2], 1), (1, 2)])
def test_conv2d(padding, strides, dilations):
    x, w = random(2, 9, 8, 6, seed=1), random(3, 2, 3, 4, seed=2)  # two groups
    assert_same(
        lambda x, w: ops.conv2d(x, w, strides, padding, dilations=dilations),
        lambda x, w: stock_conv2d(x, w, strides, padding, dilations),
        x,
        w,
    )


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_conv2d(padding, stride, multiplier):
    x, w = random(2, 9, 8, 5, seed=1), random(3, 3, 5, multiplier, seed=2)
    strides = [1, stride, stride, 1]
    assert_same(
        lambda x, w: ops.depthwise_conv2d(x, w, strides, padding),
        lambda x, w: tf.nn.depthwise_conv2d(x, w, strides, padding),
        x,
        w,
    )


def test_second_order_gradient_of_a_convolution():
    def second(conv):
        def norm_gradient(x, w):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(conv(x, w, 1, "SAME") ** 3)
            return tape.gradient(y, x)

        return norm_gradient

    x, w = random(1, 5, 5, 2, seed=1), random(3, 3, 2, 2, seed=2)
    assert_same(second(ops.conv2d), second(tf.nn.conv2d), x, w, rtol=1e-4, atol=1e-3)


def test_float16_with_both_partials():
    a, b = random(8, 64, seed=1, dtype=tf.float16), random(64, 8, seed=2, dtype=tf.float16)
    exact = np.matmul(a.numpy().astype("f8"), b.numpy().astype("f8"))
    wide = ops.matmul(a, b)
    with scopes.partials_type(tf.float16):
        narrow = ops.matmul(a, b)
    assert wide.dtype == narrow.dtype == tf.float16
    assert np.abs(wide - exact).max() < np.abs(narrow - exact).max() < 0.1


def test_gradient_keeps_the_partials_of_its_op():
    @tf.function
    def gradient(a, b):
        with tf.GradientTape() as tape:
            tape.watch(a)
            with scopes.partials_type(tf.float16):
                y = ops.matmul(a, b)
        return tape.gradient(y, a)

    spec = tf.TensorSpec([8, 8], tf.float16)
    graph = gradient.get_concrete_function(spec, spec).graph
    products = [op for op in graph.get_operations() if op.type == "IpuMatMul"]
    assert len(products) > 1
    assert all(op.get_attr("partials") == b"float16" for op in products)


class TestPlans:
    def test_plan_is_executed(self):
        plan = ops.MatMulPlan(rows=2, columns=3, reduction=4, grain=8)
        a, b = random(8, 64, seed=1), random(64, 9, seed=2)
        np.testing.assert_allclose(
            ops.matmul(a, b, plan=plan), tf.matmul(a, b), rtol=1e-5, atol=1e-5
        )

    def test_plan_of_a_face(self):
        a, b = tf.TensorSpec([64, 128]), tf.TensorSpec([128, 32])
        plan = ops.plan_of(ops.matmul, a, b)
        assert isinstance(plan, ops.MatMulPlan)
        assert 1 <= plan.tiles <= config.device_configuration().tiles_per_ipu
        assert ops.plan_of(ops.matmul, a, b, plan=plan) == plan

    def test_plan_of_a_convolution(self):
        plan = ops.plan_of(ops.conv2d, random(2, 8, 8, 4), tf.TensorSpec([3, 3, 4, 4]), 1, "SAME")
        assert isinstance(plan, ops.ConvPlan)

    def test_plan_of_a_tensor_in_a_graph(self):
        with tf.Graph().as_default():
            y = ops.matmul(tf.zeros([4, 8]), tf.zeros([8, 4]))
            assert ops.plan_of(y) == ops.plan_of(
                ops.matmul, tf.TensorSpec([4, 8]), tf.TensorSpec([8, 4])
            )
            with pytest.raises(ValueError, match="is not a tile op"):
                ops.plan_of(tf.zeros([2]))

    def test_smaller_machine_gives_a_smaller_plan(self):
        cfg = IPUConfig()
        cfg.ipu_model.tiles_per_ipu = 4
        cfg.configure_ipu_system()
        try:
            plan = ops.plan_of(ops.matmul, tf.TensorSpec([64, 64]), tf.TensorSpec([64, 64]))
        finally:
            config.reset_ipu_configuration()
        assert plan.tiles <= 4


class TestErrors:
    def test_plan_of_the_wrong_kind(self):
        with pytest.raises(ValueError, match="takes a MatMulPlan"):
            ops.matmul(random(4, 4), random(4, 4), plan=ops.ConvPlan())

    def test_plan_that_does_not_fit_the_shape(self):
        with pytest.raises(ValueError, match="splits rows of 4 elements"):
            ops.matmul(random(4, 4), random(4, 4), plan=ops.MatMulPlan(rows=5, grain=8))

    def test_plan_that_does_not_fit_a_tile(self):
        big = tf.zeros([2000, 2000])
        with pytest.raises(PlanDoesNotFit, match="availableMemoryProportion"):
            ops.matmul(big, big, plan=ops.MatMulPlan(grain=8))

    def test_mixed_dtypes(self):
        with pytest.raises(ValueError, match="all float32 or all float16.*float32, float16"):
            ops.matmul(random(4, 4), random(4, 4, dtype=tf.float16))

    def test_integers(self):
        with pytest.raises(ValueError, match="int32"):
            ops.matmul(tf.eye(2, dtype=tf.int32), tf.eye(2, dtype=tf.int32))

    def test_inner_dimensions(self):
        with pytest.raises(ValueError, match="inner dimensions differ, 4 and 5"):
            ops.matmul(random(3, 4), random(5, 6))

    def test_batch_dimensions(self):
        with pytest.raises(ValueError, match="do not broadcast"):
            ops.batch_matmul(random(2, 3, 4), random(3, 4, 5))

    @pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
    def test_zero_sized(self, shape):
        with pytest.raises(ValueError, match="zero-sized"):
            ops.matmul(tf.zeros(shape), tf.zeros([shape[1], 2]))

    def test_zero_sized_convolution(self):
        with pytest.raises(ValueError, match="zero-sized"):
            ops.conv2d(tf.zeros([0, 4, 4, 1]), tf.zeros([3, 3, 1, 1]), 1, "SAME")

    def test_filter_larger_than_image(self):
        with pytest.raises(ValueError, match="has no output"):
            ops.conv2d(random(1, 2, 2, 1), random(3, 3, 1, 1), 1, "VALID")

    def test_channels_that_make_no_groups(self):
        with pytest.raises(ValueError, match="whole groups"):
            ops.conv2d(random(1, 4, 4, 3), random(3, 3, 2, 2), 1, "SAME")

    def test_data_format(self):
        with pytest.raises(ValueError, match="NHWC"):
            ops.conv2d(random(1, 4, 4, 3), random(3, 3, 3, 2), 1, "SAME", data_format="NCHW")

    @pytest.mark.parametrize("padding", ["FULL", [[1, 1]]])
    def test_padding(self, padding):
        with pytest.raises(ValueError, match="four pairs"):
            ops.conv2d(random(1, 4, 4, 3), random(3, 3, 3, 2), 1, padding)

    def test_strides(self):
        with pytest.raises(ValueError, match="strides must be"):
            ops.conv2d(random(1, 4, 4, 3), random(3, 3, 3, 2), [2, 1, 1, 2], "SAME")

    def test_unknown_shape(self):
        @tf.function(input_signature=[tf.TensorSpec([None, 4])])
        def product(a):
            return ops.matmul(a, tf.eye(4))

        with pytest.raises(ValueError, match="needs static shapes"):
            product(tf.eye(4))
