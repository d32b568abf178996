"""Runs a tile op as the reference is run: same shape, plan, rounding and operands."""

import numpy as np

from ipu_tf.ops import reference
from ipu_tf.ops.kernels import library
from ipu_tf.planner.plan import MatMulShape
from tests.ops.tile_cases import conv_operands, geometry, normals


def tile_attributes(plan, rounding):
    """Returns the attributes that a tile op has beside those of its stock twin."""
    return {
        "plan": plan.to_list(),
        "method": plan.method,
        "serial": list(plan.serial.values()),
        "partials": plan.partials,
        "rounding": rounding.mode,
        "nanoo": rounding.nanoo,
        "stream": rounding.stream,
    }


def conv_attributes(shape):
    """Returns the attributes of a convolution that its stock twin has, too."""
    return {
        "strides": [1, *shape.strides, 1],
        "dilations": [1, *shape.dilations, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, *shape.padding, 0, 0],
    }


def operands(shape, seed, scale=1.0):
    """Returns random operands: a and b of a matmul, or x, w and dy of a convolution."""
    if isinstance(shape, MatMulShape):
        shapes = ((shape.batch, shape.m, shape.k), (shape.batch, shape.k, shape.n))
    else:
        shapes = conv_operands(shape)
    with np.errstate(over="ignore"):
        return [normals(seed + i, s, shape.dtype, scale) for i, s in enumerate(shapes)]


def run_op(shape, plan, values, rounding):
    """Returns the result of the C++ tile op; `rounding.call` executions came before it."""
    ops = library.load()
    attributes = tile_attributes(plan, rounding)
    library.reset_seed(rounding.seed)
    for _ in range(rounding.call + 1):
        if isinstance(shape, MatMulShape):
            result = ops.ipu_batch_mat_mul(*values, **attributes)
        else:
            result = _run_conv(ops, shape, values, attributes | conv_attributes(shape))
    return result.numpy()


def _run_conv(ops, shape, values, attributes):
    x, w, dy = values
    if shape.pass_ == "forward":
        return ops.ipu_conv2d(x, w, **attributes)
    if shape.pass_ == "input_gradient":
        return ops.ipu_conv2d_backprop_input(x.shape, w, dy, **attributes)
    return ops.ipu_conv2d_backprop_filter(x, w.shape, dy, **attributes)


def run_reference(shape, plan, values, rounding):
    """Returns what the reference says the result is."""
    if isinstance(shape, MatMulShape):
        return reference.batch_matmul(*values, plan, rounding=rounding)
    x, w, dy = values
    where = geometry(shape) | {"rounding": rounding}
    if shape.pass_ == "forward":
        return reference.conv2d(x, w, plan, **where)
    if shape.pass_ == "input_gradient":
        return reference.conv2d_input_gradient(x.shape, w, dy, plan, **where)
    return reference.conv2d_filter_gradient(x, w.shape, dy, plan, **where)


def assert_agree(result, expected):
    """Checks bits of float16 (any NaN is a NaN), and float32 to rounding."""
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    if result.dtype == np.float32:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-5)
        return
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    bits, expected_bits = (np.where(np.isnan(v), 0, v.view(np.uint16)) for v in (result, expected))
    np.testing.assert_array_equal(bits, expected_bits)


def check_op(shape, plan, seed, rounding, scale=1.0):
    """Checks a tile op against the reference on random operands."""
    values = operands(shape, seed, scale)
    expected = run_reference(shape, plan, values, rounding)
    assert_agree(run_op(shape, plan, values, rounding), expected)
