"""The float32 tile ops against TensorFlow's own, over a grid of shapes; and what the ops refuse."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops.kernels import library

TOLERANCE = 2e-6
MATRICES = [(1, 1, 1), (3, 5, 7), (13, 33, 65), (64, 230, 51), (250, 64, 100), (7, 600, 33)]
STEPS = [
    ((1, 1), (1, 1)),
    ((2, 2), (1, 1)),
    ((3, 2), (1, 1)),
    ((1, 1), (2, 2)),
    ((1, 1), (1, 2)),
]
PADDINGS = ["SAME", "VALID", [2, 1, 0, 3]]
# Image and filter; few channels, one channel, wide, grouped, pointwise.
CONVOLUTIONS = [
    ((2, 9, 8, 3), (3, 3, 3, 8)),
    ((3, 14, 13, 3), (5, 5, 3, 5)),
    ((1, 7, 7, 1), (2, 2, 1, 1)),
    ((2, 11, 10, 32), (3, 3, 32, 40)),
    ((2, 12, 10, 8), (3, 2, 4, 12)),
    ((4, 10, 11, 64), (1, 1, 64, 32)),
]
# Fewer channels than a vector, several a group, several vectors, filters larger than the image.
DEPTHWISE = [
    ((2, 9, 8, 4), (3, 3, 4, 1)),
    ((2, 9, 9, 5), (3, 2, 5, 3)),
    ((19, 12, 11, 40), (3, 3, 40, 1)),
    ((3, 5, 5, 20), (5, 4, 20, 1)),
]


def normal(*shape):
    return tf.constant(np.random.default_rng(sum(shape)).normal(size=shape), tf.float32)


def assert_close(ours, stock):
    assert ours.shape == stock.shape
    assert tf.norm(ours - stock) <= TOLERANCE * tf.norm(stock)


def attributes(strides, dilations, padding):
    result = {"strides": [1, *strides, 1], "dilations": [1, *dilations, 1]}
    if isinstance(padding, str):
        return result | {"padding": padding}
    return result | {"padding": "EXPLICIT", "explicit_paddings": [0, 0, *padding, 0, 0]}


def pad(x, padding):
    """Returns the padded image and what stock has to do still, which lacks explicit gradients."""
    if isinstance(padding, str):
        return x, padding
    top, bottom, left, right = padding
    return tf.pad(x, [[0, 0], [top, bottom], [left, right], [0, 0]]), "VALID"


def parts(extent, grain=8):
    """Returns a split of a reduction, into two where there is enough of it."""
    return min(2, -(-extent // grain))


@pytest.mark.parametrize("transpose", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize(("m", "k", "n"), MATRICES)
def test_matmul(m, k, n, transpose):
    a = normal(*((k, m) if transpose[0] else (m, k)))
    b = normal(*((n, k) if transpose[1] else (k, n)))
    stock = tf.matmul(a, b, *transpose)
    for plan in ([], [1, 1, 1, parts(k), 8]):
        ours = library.load().ipu_mat_mul(
            a=a, b=b, transpose_a=transpose[0], transpose_b=transpose[1], plan=plan
        )
        assert_close(ours, stock)


@pytest.mark.parametrize(
    ("a", "b"),
    [((4, 5, 6), (4, 6, 7)), ((2, 1, 5, 6), (3, 6, 7)), ((16, 2, 33, 20), (16, 2, 20, 40))],
)
def test_batch_matmul(a, b):
    x, y = normal(*a), normal(*b)
    ops = library.load()
    assert_close(ops.ipu_batch_mat_mul(x=x, y=y), tf.matmul(x, y))
    swapped = [tf.linalg.matrix_transpose(tensor) for tensor in (x, y)]
    ours = ops.ipu_batch_mat_mul(x=swapped[0], y=swapped[1], adj_x=True, adj_y=True)
    assert_close(ours, tf.matmul(x, y))


@pytest.mark.parametrize(
    ("equation", "a", "b"),
    [
        ("abc,cde->abde", (3, 5, 8), (8, 2, 6)),
        ("aecd,abcd->acbe", (2, 7, 3, 8), (2, 5, 3, 8)),
        ("acbe,aecd->abcd", (2, 3, 5, 7), (2, 7, 3, 8)),
        ("...ab,...bc->...ac", (2, 3, 4, 5), (2, 3, 5, 6)),
        ("ab,cb->ca", (4, 5), (6, 5)),
        ("ba,bc->ac", (7, 4), (7, 9)),
        ("bac,cbd->dab", (7, 4, 3), (3, 7, 5)),
        ("a,a->", (4,), (4,)),
    ],
)
def test_einsum(equation, a, b):
    x, y = normal(*a), normal(*b)
    ours = library.load().ipu_einsum(inputs=[x, y], equation=equation)
    assert_close(ours, tf.einsum(equation, x, y))


@pytest.mark.fast_cells(45)
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize(("strides", "dilations"), STEPS)
@pytest.mark.parametrize(("image", "kernel"), CONVOLUTIONS)
def test_convolution_and_gradients(image, kernel, strides, dilations, padding):
    x, w = normal(*image), normal(*kernel)
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        padded, rest = pad(x, padding)
        groups = image[3] // kernel[2]
        slices = zip(tf.split(padded, groups, 3), tf.split(w, groups, 3), strict=True)
        y = tf.concat(
            [tf.nn.conv2d(i, f, strides, rest, dilations=dilations) for i, f in slices], 3
        )
    dy = normal(*y.shape)
    dx, dw = tape.gradient(y, [x, w], dy)
    ops, options = library.load(), attributes(strides, dilations, padding)
    kernel_parts = [min(2, kernel[0]), kernel[1]]
    split = [1, 1, 1, 1, 1, parts(kernel[2]), *kernel_parts, 8]
    split_back = [1, 1, 1, 1, 1, parts(kernel[3] // groups), *kernel_parts, 8]
    split_pixels = [min(2, image[0]), 1, min(2, y.shape[1]), parts(y.shape[2], 4), 1, 1, 1, 1, 4]
    for plan in ([], split):
        assert_close(ops.ipu_conv2d(input=x, filter=w, plan=plan, **options), y)
    for plan in ([], split_back):
        ours = ops.ipu_conv2d_backprop_input(
            input_sizes=image, filter=w, out_backprop=dy, plan=plan, **options
        )
        assert_close(ours, dx)
    for plan in ([], split_pixels):
        ours = ops.ipu_conv2d_backprop_filter(
            input=x, filter_sizes=kernel, out_backprop=dy, plan=plan, **options
        )
        assert_close(ours, dw)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("image", "kernel"), DEPTHWISE)
def test_depthwise_convolution_and_gradients(image, kernel, stride, padding):
    x, w = normal(*image), normal(*kernel)
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = tf.nn.depthwise_conv2d(x, w, [1, stride, stride, 1], padding)
    dy = normal(*y.shape)
    dx, dw = tape.gradient(y, [x, w], dy)
    ops, options = library.load(), attributes((stride, stride), (1, 1), padding)
    assert_close(ops.ipu_depthwise_conv2d_native(input=x, filter=w, **options), y)
    ours = ops.ipu_depthwise_conv2d_native_backprop_input(
        input_sizes=image, filter=w, out_backprop=dy, **options
    )
    assert_close(ours, dx)
    ours = ops.ipu_depthwise_conv2d_native_backprop_filter(
        input=x, filter_sizes=kernel, out_backprop=dy, **options
    )
    assert_close(ours, dw)


ONE = {"strides": [1, 1, 1, 1], "padding": "SAME"}


def conv(image=(1, 3, 3, 2), kernel=(3, 3, 2, 2), **options):
    return library.load().ipu_conv2d(
        input=tf.ones(image), filter=tf.ones(kernel), **{**ONE, **options}
    )


def matmul(a=(4, 10), b=(10, 4), **options):
    return library.load().ipu_mat_mul(a=tf.ones(a), b=tf.ones(b), **options)


def einsum(equation, a, b):
    return library.load().ipu_einsum(inputs=[tf.ones(a), tf.ones(b)], equation=equation)


def input_gradient(sizes=(1, 3, 3, 2), dy=(1, 3, 3, 2)):
    return library.load().ipu_conv2d_backprop_input(
        input_sizes=sizes, filter=tf.ones([3, 3, 2, 2]), out_backprop=tf.ones(dy), **ONE
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: matmul(plan=[1, 1, 1, 4, 16]),
            r"splits reduction of 10 elements \(grain 16\) into 4 parts; at most 1 are possible",
        ),
        (lambda: matmul(plan=[1, 1]), r"a plan has 5 entries.*Received: \[1, 1\]"),
        (lambda: matmul(plan=[1, 1, 1, 0, 8]), "every entry of a plan is at least 1"),
        (lambda: matmul(b=(9, 4)), r"operands do not match: \[4,10\] times \[9,4\]"),
        (lambda: matmul(a=(4, 0), b=(0, 4)), "may not have a dimension of 0"),
        (lambda: matmul(a=(2, 2, 2)), "operands are matrices"),
        (lambda: einsum("ab,bc", (2, 3), (3, 4)), "is not of the form 'a,b->c'"),
        (lambda: einsum("aab,bc->ac", (2, 2, 3), (3, 4)), "repeats a label"),
        (lambda: einsum("abd,bc->ac", (2, 3, 4), (3, 4)), "sums a label over one operand only"),
        (lambda: einsum("ab,bc->ac", (2, 3), (4, 5)), "3 elements in one operand and 4 in the"),
        (lambda: conv(plan=[1] * 5), "a plan has 9 entries"),
        (lambda: conv(kernel=(5, 3, 2, 2), padding="VALID"), "the filter spans 5 rows"),
        (lambda: conv(kernel=(3, 3, 3, 2)), "do not fit the filter in whole groups"),
        (lambda: conv(data_format="NCHW"), "take data_format NHWC"),
        (lambda: conv(strides=[1, 0, 1, 1]), r"strides must be \[1, rows, columns, 1\]"),
        (lambda: conv(image=(0, 3, 3, 2)), "may not have a dimension of 0"),
        (
            lambda: conv(padding="EXPLICIT", explicit_paddings=[0, 0, -1, 0, 0, 0, 0, 0]),
            "explicit_paddings must be",
        ),
        (lambda: input_gradient(dy=(1, 2, 2, 2)), "must have the shape of the forward output"),
        (lambda: input_gradient(sizes=(1, 3, 2)), "must be a vector of four sizes"),
        (lambda: input_gradient(sizes=(1, -3, 3, 2)), "must not be negative"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call()


def check(op_type, inputs, outputs, **looks_for):
    return library.load().ipu_floating_point_check(
        inputs=[tf.constant(values, tf.float32) for values in inputs],
        outputs=[tf.constant(values, tf.float16) for values in outputs],
        op_name="layer/op",
        op_type=op_type,
        **looks_for,
    )


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "what"),
    [
        ("Add", [[1.0] * 9], [[1.0] * 20 + [np.nan]], "invalid operation"),
        ("Mul", [[1.0, np.nan]], [[np.inf]], "overflow"),
        ("RealDiv", [[1.0], [2.0, -0.0]], [[np.inf]], "division by zero"),
        ("Rsqrt", [[0.0]], [[np.inf]], "division by zero"),
    ],
)
def test_floating_point_exceptions(op_type, inputs, outputs, what):
    message = rf"Floating-point exception \({what}\) in op 'layer/op' \({op_type}\)\."
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        check(op_type, inputs, outputs, inv=True, div0=True, oflo=True)


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs"),
    [
        ("Add", [[np.nan, np.inf]], [[np.nan, np.inf]]),
        ("Mul", [[1.0]], [[65504.0]]),
        ("DivNoNan", [[1.0], [0.0]], [[0.0]]),
    ],
)
def test_no_floating_point_exception(op_type, inputs, outputs):
    check(op_type, inputs, outputs, inv=True, div0=True, oflo=True)


def test_division_by_zero_is_no_overflow():
    check("RealDiv", [[1.0], [0.0]], [[np.inf]], oflo=True)
