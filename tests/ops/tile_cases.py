"""Small convolutions and matmuls with random plans, for the tests of reference and kernels."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from ipu_tf.planner.plan import PLAN_TYPES, ConvShape, MatMulShape
from ipu_tf.planner.shapes import CONV_PASSES
from ipu_tf.planner.windows import window_extent

_MOST_PARTS = 3
DTYPES = st.sampled_from(["float32", "float16"])
PARTIALS = st.sampled_from(["float32", "float16"])
PASSES = st.sampled_from(CONV_PASSES)
SEEDS = st.integers(0, 2**32 - 1)


def integers(seed, shape, dtype="float32"):
    """Returns small random integers: sums and products of them are exact in float32."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def normals(seed, shape, dtype="float32", scale=1.0):
    """Returns normally distributed numbers."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(dtype)


def conv_operands(shape):
    """Returns the shapes of images, filter and result of a convolution."""
    channels = shape.groups * shape.in_channels
    out_channels = shape.groups * shape.out_channels
    return (
        (shape.batch, shape.in_rows, shape.in_columns, channels),
        (shape.kernel_rows, shape.kernel_columns, shape.in_channels, out_channels),
        (shape.batch, shape.out_rows, shape.out_columns, out_channels),
    )


@st.composite
def matmul_shapes(draw, dtypes=DTYPES):
    """Draws a small matmul."""
    return MatMulShape(
        batch=draw(st.integers(1, 3)),
        m=draw(st.integers(1, 9)),
        k=draw(st.integers(1, 60)),
        n=draw(st.integers(1, 40)),
        dtype=draw(dtypes),
    )


@st.composite
def conv_shapes(draw, dtypes=DTYPES, passes=PASSES):
    """Draws a small convolution: any pass, strides, dilations, padding and groups."""
    sizes = (draw(st.integers(1, 8)), draw(st.integers(1, 8)))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    dilations = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
    outputs = [
        window_extent(
            size=sizes[axis],
            kernel=kernel[axis],
            stride=strides[axis],
            dilation=dilations[axis],
            padding=padding[2 * axis : 2 * axis + 2],
        )
        for axis in (0, 1)
    ]
    assume(min(outputs) > 0)
    return ConvShape(
        pass_=draw(passes),
        batch=draw(st.integers(1, 3)),
        in_rows=sizes[0],
        in_columns=sizes[1],
        in_channels=draw(st.integers(1, 20)),
        out_channels=draw(st.integers(1, 20)),
        groups=draw(st.integers(1, 3)),
        kernel_rows=kernel[0],
        kernel_columns=kernel[1],
        out_rows=outputs[0],
        out_columns=outputs[1],
        strides=strides,
        dilations=dilations,
        padding=padding,
        dtype=draw(dtypes),
    )


@st.composite
def plans(draw, shape, partials=PARTIALS):
    """Draws a plan that is possible for a shape."""
    grain = draw(st.sampled_from([1, 3, 8, 16]))
    splits = {}
    for name, extent in shape.extents.items():
        units = -(-extent // grain) if name == shape.grained_split else extent
        splits[name] = draw(st.integers(1, min(units, _MOST_PARTS)))
    plan_type = PLAN_TYPES[shape.family]
    steps = {
        f"serial_{name}": draw(st.sampled_from([1, splits[name]]))
        for name in plan_type.serial_names()
        if not _after_another_split(shape, splits, name)
    }
    return plan_type(**splits, **steps, grain=grain, partials=draw(partials))


def _after_another_split(shape, splits, name):
    """Returns whether partials of another extent are added before those of `name`."""
    order = shape.reduction_splits
    return name in order and any(splits[before] > 1 for before in order[: order.index(name)])


@st.composite
def planned(draw, shapes):
    """Draws a shape, a plan for it and a seed for its values."""
    shape = draw(shapes)
    return shape, draw(plans(shape)), draw(SEEDS)


def geometry(shape):
    """Returns the keyword arguments of a convolution."""
    return {"strides": shape.strides, "padding": shape.padding, "dilations": shape.dilations}
