"""The reference against float64 and stock TensorFlow, and against cases worked by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from ipu_tf.ops import reference
from ipu_tf.ops.reference import Rounding, Xoroshiro128Plus, round16
from ipu_tf.planner.plan import ConvPlan, MatMulPlan
from tests.grids import examples
from tests.ops.tile_cases import (
    conv_operands,
    conv_shapes,
    geometry,
    integers,
    matmul_shapes,
    normals,
    planned,
)

HALF_PARTIALS = MatMulPlan(grain=16, partials="float16")


def half(values):
    return np.array(values, np.float16)


# Values: with small integers every sum is exact, so any plan gives the exact result.


@examples(60)
@given(planned(matmul_shapes()))
def test_matmul_of_integers_is_exact_under_any_plan(case):
    shape, plan, seed = case
    a = integers(seed, (shape.batch, shape.m, shape.k), shape.dtype)
    b = integers(seed + 1, (shape.batch, shape.k, shape.n), shape.dtype)
    product = reference.batch_matmul(a, b, plan)
    assert product.dtype == shape.dtype
    np.testing.assert_array_equal(product, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.slow
@examples(60)
@given(planned(conv_shapes()))
def test_conv_of_integers_is_exact_under_any_plan(case):
    shape, plan, seed = case
    x_shape, w_shape, dy_shape = conv_operands(shape)
    x = integers(seed, x_shape, shape.dtype)
    w = integers(seed + 1, w_shape, shape.dtype)
    dy = integers(seed + 2, dy_shape, shape.dtype)
    exact = {"x": x.astype(np.float64), "w": w.astype(np.float64), "dy": dy.astype(np.float64)}
    if shape.pass_ == "forward":
        result = reference.conv2d(x, w, plan, **geometry(shape))
        expected = plain_conv(exact["x"], exact["w"], shape)
    elif shape.pass_ == "input_gradient":
        result = reference.conv2d_input_gradient(x_shape, w, dy, plan, **geometry(shape))
        expected = plain_gradients(exact["x"], exact["w"], exact["dy"], shape)[0]
    else:
        result = reference.conv2d_filter_gradient(x, w_shape, dy, plan, **geometry(shape))
        expected = plain_gradients(exact["x"], exact["w"], exact["dy"], shape)[1]
    assert result.dtype == shape.dtype
    np.testing.assert_array_equal(result, expected)


def taps(shape):
    """Yields every (output row, kernel row, input row) that exists, and the same for columns."""
    for axis, name in enumerate(("rows", "columns")):
        yield [
            (out, tap, out * shape.strides[axis] + tap * shape.dilations[axis] - begin)
            for out in range(getattr(shape, f"out_{name}"))
            for tap in range(getattr(shape, f"kernel_{name}"))
            for begin in [shape.padding[2 * axis]]
            if 0
            <= out * shape.strides[axis] + tap * shape.dilations[axis] - begin
            < getattr(shape, f"in_{name}")
        ]


def by_group(values, groups):
    return np.split(values, groups, axis=-1)


def plain_conv(x, w, shape):
    rows, columns = taps(shape)
    results = []
    for image, kernel in zip(by_group(x, shape.groups), by_group(w, shape.groups), strict=True):
        y = np.zeros((shape.batch, shape.out_rows, shape.out_columns, shape.out_channels))
        for out_row, kernel_row, row in rows:
            for out_column, kernel_column, column in columns:
                y[:, out_row, out_column] += (
                    image[:, row, column] @ kernel[kernel_row, kernel_column]
                )
        results.append(y)
    return np.concatenate(results, axis=-1)


def plain_gradients(x, w, dy, shape):
    rows, columns = taps(shape)
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    groups = (by_group(values, shape.groups) for values in (x, w, dy, dx, dw))
    for image, kernel, gradient, d_image, d_kernel in zip(*groups, strict=True):
        for out_row, kernel_row, row in rows:
            for out_column, kernel_column, column in columns:
                pixel = gradient[:, out_row, out_column]
                position = kernel[kernel_row, kernel_column]
                d_image[:, row, column] += pixel @ position.T
                d_kernel[kernel_row, kernel_column] += image[:, row, column].T @ pixel
    return dx, dw


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(0, 1), (1, 0), (1, 1)])
def test_matmul_transposes_like_tensorflow(transpose_a, transpose_b):
    a = integers(0, (7, 5) if transpose_a else (5, 7))
    b = integers(1, (6, 7) if transpose_b else (7, 6))
    flags = {"transpose_a": bool(transpose_a), "transpose_b": bool(transpose_b)}
    expected = tf.linalg.matmul(a, b, **flags)
    plan = MatMulPlan(rows=2, columns=3, reduction=3, grain=2)
    np.testing.assert_array_equal(reference.matmul(a, b, plan, **flags), expected)


def test_batches_broadcast_like_tensorflow():
    a, b = integers(0, (2, 1, 3, 4)), integers(1, (5, 4, 2))
    plan = MatMulPlan(batch=10, rows=3, grain=8)
    np.testing.assert_array_equal(reference.batch_matmul(a, b, plan), tf.linalg.matmul(a, b))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_convolutions_are_those_of_tensorflow(padding, strides):
    x, w = normals(0, (2, 7, 6, 5)), normals(1, (3, 2, 5, 4))
    with tf.GradientTape() as tape:
        image, kernel = tf.Variable(x), tf.Variable(w)
        y = tf.nn.conv2d(image, kernel, strides, padding)
        dy = normals(2, y.shape)
        loss = tf.reduce_sum(y * dy)
    dx, dw = tape.gradient(loss, [image, kernel])
    where = {"strides": strides, "padding": padding}
    np.testing.assert_allclose(reference.conv2d(x, w, **where), y, atol=1e-5)
    np.testing.assert_allclose(
        reference.conv2d_input_gradient(x.shape, w, dy, **where), dx, atol=1e-5
    )
    np.testing.assert_allclose(
        reference.conv2d_filter_gradient(x, w.shape, dy, **where), dw, atol=1e-5
    )


@pytest.mark.parametrize(("padding", "dilations"), [("SAME", (2, 2)), ("VALID", (1, 1))])
def test_depthwise_is_that_of_tensorflow(padding, dilations):
    x, w = integers(0, (2, 8, 8, 3)), integers(1, (3, 3, 3, 2))
    expected = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], padding, dilations=dilations)
    result = reference.depthwise_conv2d(
        x, w, ConvPlan(groups=3, grain=8), padding=padding, dilations=dilations
    )
    np.testing.assert_array_equal(result, expected)


def test_float32_errors_are_those_of_rounding():
    a, b = normals(0, (20, 300)), normals(1, (300, 20))
    plan = MatMulPlan(rows=4, reduction=5, grain=8)
    exact = a.astype(np.float64) @ b
    error = np.abs(reference.matmul(a, b, plan) - exact).max()
    assert error < 300 * 2**-24 * (np.abs(a) @ np.abs(b)).max()


# Bits: where float16 is rounded.


def one_row(first, others):
    """Returns a row of 48 ones but for some, to be multiplied with ones: three passes of 16."""
    row = np.zeros((1, 48), np.float16)
    row[0, 0] = first
    for index in others:
        row[0, index] = 1
    return row


ONES = np.ones((48, 1), np.float16)


def test_float16_partials_are_rounded_after_every_pass():
    # 2048 + 1 is a tie that goes back to 2048, in the second pass and again in the third.
    assert reference.matmul(one_row(2048, [16, 32]), ONES, HALF_PARTIALS) == 2048


def test_float16_partials_are_not_rounded_within_a_pass():
    assert reference.matmul(one_row(2048, [16, 17]), ONES, HALF_PARTIALS) == 2050
    assert reference.matmul(one_row(2048, [15, 14]), ONES, HALF_PARTIALS) == 2050


def test_float32_partials_are_rounded_once():
    plan = MatMulPlan(grain=16)
    assert reference.matmul(one_row(2048, [16, 32]), ONES, plan) == 2050
    assert reference.matmul(one_row(2048, [16]), ONES, plan) == 2048


def test_a_part_starts_its_own_passes():
    # Two parts: [0, 16) and [16, 48). In the second, 1 + 1 is exact; the sum is 2050.
    plan = dataclasses.replace(HALF_PARTIALS, reduction=2)
    assert reference.matmul(one_row(2048, [16, 32]), ONES, plan) == 2050


def test_the_sum_over_tiles_is_float32_and_rounded_once():
    # Three parts give 2048, 1 and 1: added one by one in float16 they would stay at 2048.
    plan = dataclasses.replace(HALF_PARTIALS, reduction=3)
    assert reference.matmul(one_row(2048, [16, 32]), ONES, plan) == 2050


def test_partials_are_added_in_the_order_of_the_plan():
    # 2**15 * 2**15 swallows 1 in float32, before or after it is cancelled.
    a = half([[2**15, 1, -(2**15)]])
    b = half([[2**15], [1], [2**15]])
    plan = MatMulPlan(reduction=3, grain=1)
    assert reference.matmul(a, b, plan) == 0
    assert reference.matmul(a[:, [0, 2, 1]], b[[0, 2, 1]], plan) == 1


def test_elements_of_a_pass_are_added_in_order():
    a = half([[2**15, 1, -(2**15)]])
    b = half([[2**15], [1], [2**15]])
    assert reference.matmul(a, b, HALF_PARTIALS) == 0
    assert reference.matmul(a[:, [0, 2, 1]], b[[0, 2, 1]], HALF_PARTIALS) == 1


def test_a_pass_saturates_and_the_next_goes_on():
    a = np.zeros((1, 48), np.float16)
    a[0, 0] = a[0, 1] = 60000
    a[0, 16] = -65504
    assert reference.matmul(a, ONES, HALF_PARTIALS) == 0
    assert reference.matmul(a, ONES, MatMulPlan(grain=16)) == 120000 - 65504
    with_nan = reference.matmul(a, ONES, HALF_PARTIALS, rounding=Rounding(nanoo=True))
    assert np.isnan(with_nan).all()


def test_a_convolution_ends_a_pass_at_every_kernel_position():
    # Kernel positions of one channel: 2048, 1, 1. Each is a run, so each is rounded.
    x = half([2048, 1, 1]).reshape(1, 1, 3, 1)
    w = np.ones((1, 3, 1, 1), np.float16)
    plan = ConvPlan(grain=16, partials="float16")
    assert reference.conv2d(x, w, plan) == 2048
    assert reference.conv2d(x, w, ConvPlan(grain=16)) == 2050


def test_a_filter_gradient_ends_a_pass_at_every_row():
    plan = ConvPlan(grain=16, partials="float16")
    in_a_row = half([2048, 1, 1]).reshape(1, 1, 3, 1)
    in_a_column = half([2048, 1, 1]).reshape(1, 3, 1, 1)
    for image, expected in ((in_a_row, 2050), (in_a_column, 2048)):
        dy = np.ones(image.shape, np.float16)
        assert reference.conv2d_filter_gradient(image, (1, 1, 1, 1), dy, plan) == expected


def test_an_input_gradient_counts_kernel_positions_of_the_flipped_filter():
    # dx[1] = dy[1] * w[0] + dy[0] * w[1]. Flipped, w[1] comes first: 1 + 2048 and then 1 more
    # would be 2050 in one pass, but every position ends one.
    w = half([1, 2048, 1]).reshape(1, 3, 1, 1)
    dy = np.ones((1, 1, 3, 1), np.float16)
    plan = ConvPlan(grain=16, partials="float16")
    dx = reference.conv2d_input_gradient((1, 1, 5, 1), w, dy, plan)
    # Position 2: w[2] + w[1] + w[0] = 1 + 2048 (tie, 2048) + 1 (tie, 2048).
    np.testing.assert_array_equal(dx[0, 0, :, 0], [1, 2048, 2048, 2048, 1])
    # With the kernel split at its columns, flipped position 0 is w[2]: 1 + (2048 + 1 -> 2048).
    split = dataclasses.replace(plan, kernel_columns=3)
    dx = reference.conv2d_input_gradient((1, 1, 5, 1), w, dy, split)
    np.testing.assert_array_equal(dx[0, 0, :, 0], [1, 2048, 2050, 2048, 1])


def test_products_outside_the_image_are_not_formed():
    x = np.ones((1, 1, 2, 1), np.float16)
    w = half([np.inf, 1, 1]).reshape(1, 3, 1, 1)
    y = reference.conv2d(x, w, ConvPlan(grain=16, partials="float16"), padding=(0, 0, 1, 0))
    np.testing.assert_array_equal(y, np.full((1, 1, 1, 1), 2))


def test_a_negative_zero_survives_the_edge_of_an_image():
    tiny = half([2.0**-13]).reshape(1, 1, 1, 1)
    w = half([-(2.0**-13), 5]).reshape(1, 2, 1, 1)
    y = reference.conv2d(tiny, w, ConvPlan(grain=16, partials="float16"), padding=(0, 0, 0, 1))
    assert y == 0
    assert np.signbit(y)


# Stochastic rounding: which bits round what.

STOCHASTIC = Rounding(mode="stochastic", seed=11, stream=2, call=5)


def bits_of(tile, count):
    return Xoroshiro128Plus.for_tile(seed=11, stream=2, call=5, tile=tile).next_16(count)


def test_a_pass_rounds_its_block_in_row_major_order():
    a, b = normals(0, (3, 32), np.float16), normals(1, (32, 5), np.float16)
    bits = bits_of(0, 30)
    first = np.zeros((3, 5), np.float32)
    for i in range(16):
        first += np.outer(a[:, i].astype(np.float32), b[i])
    second = round16(first, bits=bits[:15])
    for i in range(16, 32):
        second = second + np.outer(a[:, i].astype(np.float32), b[i])
    expected = round16(second, bits=bits[15:])
    result = reference.matmul(a, b, HALF_PARTIALS, rounding=STOCHASTIC)
    np.testing.assert_array_equal(result, expected)


def test_sums_of_float32_partials_are_rounded_by_the_block_s_generator():
    a, b = normals(0, (4, 20), np.float16), normals(1, (20, 6), np.float16)
    plan = MatMulPlan(rows=2, columns=3, reduction=2, grain=16)
    exact = np.zeros((2, 4, 6), np.float32)
    for i in range(20):
        exact[int(i >= 16)] += np.outer(a[:, i].astype(np.float32), b[i])
    total = exact[0] + exact[1]
    expected = np.zeros((4, 6), np.float32)
    for row in range(2):
        for column in range(3):
            block = np.s_[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            expected[block] = round16(total[block], bits=bits_of(12 + 3 * row + column, 4))
    result = reference.matmul(a, b, plan, rounding=STOCHASTIC)
    np.testing.assert_array_equal(result, expected)


def test_tiles_are_counted_with_reductions_innermost():
    # One element, three parts: tiles 0, 1 and 2 round a partial each, generator 3 their sum.
    a, b = normals(0, (1, 3), np.float16), normals(1, (3, 1), np.float16)
    plan = MatMulPlan(reduction=3, grain=1, partials="float16")
    total = np.float32(0)
    for tile in range(3):
        product = np.float32(a[0, tile]) * np.float32(b[tile, 0])
        (partial,) = round16(np.array([product]), bits=bits_of(tile, 1))
        total = partial if tile == 0 else total + partial
    expected = round16(np.array([total]), bits=bits_of(3, 1))
    assert reference.matmul(a, b, plan, rounding=STOCHASTIC) == expected


def test_the_groups_of_a_convolution_are_its_outermost_tiles():
    x, w = normals(0, (2, 1, 1, 2), np.float16), normals(1, (1, 1, 1, 2), np.float16)
    plan = ConvPlan(batch=2, groups=2, grain=16, partials="float16")
    result = reference.conv2d(x, w, plan, rounding=STOCHASTIC)
    for group in range(2):
        for image in range(2):
            product = np.float32(x[image, 0, 0, group]) * np.float32(w[0, 0, 0, group])
            expected = round16(np.array([product]), bits=bits_of(2 * group + image, 1))
            assert result[image, 0, 0, group] == expected


def test_bits_are_used_where_no_tap_is_inside_the_image():
    # Three kernel columns over one pixel with a zero on both sides: three passes, three bits, of
    # which the second rounds the product and the third finds nothing to round.
    x, w = normals(0, (1, 1, 1, 1), np.float16), normals(1, (1, 3, 1, 1), np.float16)
    plan = ConvPlan(grain=16, partials="float16")
    product = np.float32(x[0, 0, 0, 0]) * np.float32(w[0, 1, 0, 0])
    expected = round16(np.array([product]), bits=bits_of(0, 3)[1:2])
    result = reference.conv2d(x, w, plan, padding=(0, 0, 1, 1), rounding=STOCHASTIC)
    assert result == expected


def test_stochastic_results_are_unbiased_neighbours_of_the_exact_one():
    a, b = normals(0, (1, 64), np.float16), normals(1, (64, 1), np.float16)
    a, b = np.repeat(a, 100, axis=0), np.repeat(b, 100, axis=1)
    result = reference.matmul(a, b, rounding=STOCHASTIC).astype(np.float64)
    exact = (a[:1].astype(np.float64) @ b[:, :1]).item()
    spacing = float(np.spacing(np.float16(abs(exact))))
    assert set(np.unique(np.abs(result - exact) < 1.001 * spacing)) == {True}
    assert len(np.unique(result)) == 2
    # The mean of 10000 roundings is off by at most half a spacing / 100, four times over.
    assert abs(result.mean() - exact) < 4 * 0.5 * spacing / 100


# Bad input.


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)),
        (np.ones((2, 3), np.float32), np.ones((3, 2), np.float16)),
        (np.ones((2, 3), np.float64), np.ones((3, 2), np.float64)),
    ],
)
def test_matmul_names_what_it_cannot_multiply(a, b):
    with pytest.raises(ValueError, match=r"multiplies \[\.\., m, k\] by .* Received: float"):
        reference.matmul(a, b)


def test_matmul_takes_matrices():
    with pytest.raises(ValueError, match=r"takes two matrices\. Received: \(2, 3, 4\) and \(4,\)"):
        reference.matmul(np.ones((2, 3, 4), np.float32), np.ones(4, np.float32))


def test_a_plan_that_is_too_fine_is_refused():
    with pytest.raises(ValueError, match="splits rows of 2 elements into 3 parts"):
        reference.matmul(
            np.ones((2, 3), np.float32), np.ones((3, 2), np.float32), MatMulPlan(rows=3)
        )
    with pytest.raises(ValueError, match="splits batch of 1 elements into 2 parts"):
        reference.conv2d(*images_and_filter(), ConvPlan(batch=2))


def images_and_filter(x_shape=(1, 4, 4, 4), w_shape=(2, 2, 4, 6)):
    return np.ones(x_shape, np.float32), np.ones(w_shape, np.float32)


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "message"),
    [
        ((1, 4, 4), (2, 2, 4, 6), r"Received: \(1, 4, 4\) and"),
        ((1, 4, 4, 4), (2, 2, 3, 6), "where the group's channels divide"),
        ((1, 4, 4, 4), (2, 2, 1, 6), "4 groups do not divide the out channels"),
        ((1, 1, 4, 4), (2, 2, 4, 6), "out_rows must be positive"),
    ],
)
def test_conv_names_shapes_that_do_not_go_together(x_shape, w_shape, message):
    with pytest.raises(ValueError, match=message):
        reference.conv2d(*images_and_filter(x_shape, w_shape))


def test_conv_takes_one_type():
    x, w = images_and_filter()
    with pytest.raises(ValueError, match="Received: float32 and float16"):
        reference.conv2d(x, w.astype(np.float16))


def test_gradients_take_the_shape_of_the_result():
    x, w = images_and_filter()
    dy = np.ones((1, 4, 4, 6), np.float32)
    message = r"is \(1, 3, 3, 6\)\. Received: \(1, 4, 4, 6\)"
    with pytest.raises(ValueError, match=message):
        reference.conv2d_input_gradient(x.shape, w, dy)
    with pytest.raises(ValueError, match=message):
        reference.conv2d_filter_gradient(x, w.shape, dy)
