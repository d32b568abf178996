"""The C++ tile ops against the reference: bit for bit in float16, to rounding in float32."""

import dataclasses
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.machine import target
from ipu_tf.ops import reference
from ipu_tf.ops.kernels import library
from ipu_tf.ops.reference import NEAREST, Rounding
from ipu_tf.planner.plan import ConvPlan, ConvShape, MatMulPlan, MatMulShape
from ipu_tf.planner.planner import plan_conv, plan_matmul
from ipu_tf.planner.shapes import CONV_PASSES
from tests.grids import covering, examples
from tests.ops.tile_cases import conv_shapes, matmul_shapes, normals, planned
from tests.ops.tile_op_calls import (
    assert_agree,
    check_op,
    conv_attributes,
    operands,
    run_op,
    run_reference,
    tile_attributes,
)

# 1: ordinary numbers; 2e-3: products among the float16 subnormals; 60: sums that overflow.
SCALES = st.sampled_from([1.0, 2e-3, 60.0])
NANOO = st.booleans()
EXAMPLES = examples(80)


def conv(pass_="forward", dtype="float16", **changes):
    """Returns a convolution that leaves remainders everywhere."""
    shape = ConvShape(
        pass_=pass_,
        batch=3,
        in_rows=9,
        in_columns=10,
        in_channels=19,
        out_channels=21,
        groups=2,
        kernel_rows=3,
        kernel_columns=2,
        out_rows=7,
        out_columns=9,
        dtype=dtype,
    )
    return dataclasses.replace(shape, **changes)


@EXAMPLES
@given(planned(matmul_shapes()), SCALES, NANOO)
def test_matmul_to_nearest(case, scale, nanoo):
    shape, plan, seed = case
    scale = 1.0 if shape.dtype == "float32" else scale
    check_op(shape, plan, seed, Rounding(nanoo=nanoo), scale)


@EXAMPLES
@given(planned(conv_shapes()), SCALES, NANOO)
def test_conv_to_nearest(case, scale, nanoo):
    shape, plan, seed = case
    scale = 1.0 if shape.dtype == "float32" else scale
    check_op(shape, plan, seed, Rounding(nanoo=nanoo), scale)


HALF = st.just("float16")
STREAMS = st.integers(0, 100)
CALLS = st.integers(0, 2)


@pytest.mark.slow
@EXAMPLES
@given(planned(matmul_shapes(dtypes=HALF)), SCALES, NANOO, STREAMS, CALLS)
def test_matmul_stochastic(case, scale, nanoo, stream, call):
    shape, plan, seed = case
    rounding = Rounding(mode="stochastic", nanoo=nanoo, seed=seed, stream=stream, call=call)
    check_op(shape, plan, seed, rounding, scale)


@pytest.mark.slow
@EXAMPLES
@given(planned(conv_shapes(dtypes=HALF)), SCALES, NANOO, STREAMS, CALLS)
def test_conv_stochastic(case, scale, nanoo, stream, call):
    shape, plan, seed = case
    rounding = Rounding(mode="stochastic", nanoo=nanoo, seed=seed, stream=stream, call=call)
    check_op(shape, plan, seed, rounding, scale)


@pytest.mark.parametrize("mode", ["nearest", "stochastic"])
@pytest.mark.parametrize("partials", ["float32", "float16"])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (1, 300, 1), (13, 17, 33), (24, 128, 64), (7, 16, 100), (70, 5, 3)]
)
def test_matmuls_around_the_register_block(m, k, n, partials, mode):
    shape = MatMulShape(m=m, k=k, n=n, dtype="float16")
    plan = MatMulPlan(reduction=min(3, -(-k // 16)), rows=min(m, 2), grain=16, partials=partials)
    check_op(shape, plan, m, Rounding(mode=mode, seed=k, stream=n))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "stochastic"])
def test_matmul_transposes(transpose_a, transpose_b, mode):
    a = normals(0, (33, 14) if transpose_a else (14, 33), np.float16)
    b = normals(1, (20, 33) if transpose_b else (33, 20), np.float16)
    plan = MatMulPlan(rows=3, columns=2, reduction=2, grain=16, partials="float16")
    rounding = Rounding(mode=mode, seed=4)
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    library.reset_seed(rounding.seed)
    result = library.load().ipu_mat_mul(a, b, **flags, **tile_attributes(plan, rounding))
    assert_agree(result.numpy(), reference.matmul(a, b, plan, **flags, rounding=rounding))


@pytest.mark.parametrize("mode", ["nearest", "stochastic"])
def test_batches_broadcast(mode):
    a, b = normals(0, (2, 1, 5, 18), np.float16), normals(1, (3, 18, 7), np.float16)
    plan = MatMulPlan(batch=4, columns=2, grain=16, partials="float16")
    rounding = Rounding(mode=mode, seed=4)
    library.reset_seed(rounding.seed)
    result = library.load().ipu_batch_mat_mul(a, b, **tile_attributes(plan, rounding))
    assert_agree(result.numpy(), reference.batch_matmul(a, b, plan, rounding=rounding))


@pytest.mark.parametrize("partials", ["float32", "float16"])
def test_einsum_is_a_batched_matmul(partials):
    queries, keys = normals(0, (2, 5, 3, 40), np.float16), normals(1, (2, 7, 3, 40), np.float16)
    plan = MatMulPlan(batch=2, rows=2, columns=3, reduction=2, grain=16, partials=partials)
    result = library.load().ipu_einsum(
        [queries, keys], equation="bqhd,bkhd->bhqk", **tile_attributes(plan, NEAREST)
    )
    left, right = np.moveaxis(queries, 2, 1), np.moveaxis(keys, 2, 1)
    expected = reference.batch_matmul(left, right, plan, transpose_b=True)
    assert_agree(result.numpy(), expected)


CHANGES = {
    "plain": {},
    "strides": {"strides": (2, 3), "out_rows": 4, "out_columns": 3},
    "dilations": {"dilations": (2, 3), "out_rows": 5, "out_columns": 7},
    "padding": {"padding": (2, 1, 1, 0), "out_rows": 10, "out_columns": 10},
    "few_channels": {"groups": 1, "in_channels": 3, "out_channels": 40},
    "depthwise": {"groups": 5, "in_channels": 1, "out_channels": 1},
}
KINDS = {
    "pass_": CONV_PASSES,
    "partials": ["float32", "float16"],
    "mode": ["nearest", "stochastic"],
}


@pytest.mark.fast_cells(4)
@pytest.mark.parametrize(*covering(2, changes=CHANGES, **KINDS))
def test_convolutions(changes, pass_, partials, mode):
    shape = conv(pass_, **changes)
    splits = {"groups": 1, "batch": 3, "field_rows": 2, "kernel_rows": 3, "kernel_columns": 1}
    plan = ConvPlan(**splits, grain=16, partials=partials)
    check_op(shape, plan, 0, Rounding(mode=mode, seed=9))


# Layers of networks: larger than any block of the kernels, under the planner's own plans.
LAYERS = {
    "cifar10_first": conv(groups=1, in_channels=3, out_channels=32, in_columns=9, out_columns=8),
    "cifar10_third": conv(groups=1, in_channels=32, out_channels=64),
    "resnet_1x1": conv(
        groups=1,
        in_channels=160,
        out_channels=72,
        kernel_rows=1,
        kernel_columns=1,
        out_rows=9,
        out_columns=10,
    ),
    "resnet_strided": conv(
        batch=1,
        groups=1,
        in_rows=30,
        in_columns=30,
        in_channels=8,
        out_channels=48,
        kernel_rows=7,
        kernel_columns=7,
        out_rows=15,
        out_columns=15,
        strides=(2, 2),
        padding=(2, 3, 2, 3),
    ),
}


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize(*covering(2, layer=LAYERS, **KINDS))
def test_layers_under_the_planner_s_plans(layer, pass_, partials, mode):
    shape = dataclasses.replace(layer, pass_=pass_)
    plan = plan_conv(shape, target("bow", 46), partials=partials)
    check_op(shape, plan, 0, Rounding(mode=mode, seed=1))


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("partials", ["float32", "float16"])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 2304, 40), (600, 70, 90), (5, 90, 1100)])
def test_dense_layers_under_the_planner_s_plans(m, k, n, partials, dtype):
    shape = MatMulShape(m=m, k=k, n=n, dtype=dtype)
    plan = plan_matmul(shape, target("bow", 46), partials=partials)
    check_op(shape, plan, 0, NEAREST, scale=k**-0.25)


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("mode", ["nearest", "stochastic"])
@pytest.mark.parametrize(("multiplier", "stride"), [(1, 1), (1, 2), (3, 1)])
def test_depthwise_ops_are_grouped_convolutions(multiplier, stride, mode):
    channels, out = 37, -(-6 // stride)
    shape = conv(
        batch=2,
        in_rows=8,
        in_columns=8,
        groups=channels,
        in_channels=1,
        out_channels=multiplier,
        kernel_columns=3,
        out_rows=out,
        out_columns=out,
        strides=(stride, stride),
    )
    plan = ConvPlan(groups=5, field_rows=2, grain=16, partials="float16")
    rounding = Rounding(mode=mode, seed=2, stream=6)
    x, w, dy = operands(shape, 0)
    filter_ = w.reshape(3, 3, channels, multiplier)
    ops = library.load()
    attributes = tile_attributes(plan, rounding) | conv_attributes(shape)
    calls = {
        "forward": lambda: ops.ipu_depthwise_conv2d_native(x, filter_, **attributes),
        "input_gradient": lambda: ops.ipu_depthwise_conv2d_native_backprop_input(
            x.shape, filter_, dy, **attributes
        ),
        "filter_gradient": lambda: ops.ipu_depthwise_conv2d_native_backprop_filter(
            x, filter_.shape, dy, **attributes
        ),
    }
    for pass_, call in calls.items():
        library.reset_seed(rounding.seed)
        result = call().numpy()
        grouped = dataclasses.replace(shape, pass_=pass_)
        expected = run_reference(grouped, plan, (x, w, dy), rounding)
        assert_agree(result.reshape(expected.shape), expected)


def test_infinite_weights_outside_the_image_are_not_used():
    x = np.ones((1, 1, 2, 1), np.float16)
    w = np.array([np.inf, 1, 1], np.float16).reshape(1, 3, 1, 1)
    shape = ConvShape(
        batch=1,
        in_rows=1,
        in_columns=2,
        in_channels=1,
        out_channels=1,
        kernel_rows=1,
        kernel_columns=3,
        out_rows=1,
        out_columns=1,
        padding=(0, 0, 1, 0),
        dtype="float16",
    )
    plan = ConvPlan(grain=16, partials="float16")
    assert run_op(shape, plan, (x, w, None), NEAREST) == 2


@pytest.mark.parametrize("nanoo", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "stochastic"])
@pytest.mark.parametrize("partials", ["float32", "float16"])
def test_infinities_and_nans_in_the_operands(partials, mode, nanoo):
    shape = MatMulShape(m=4, k=20, n=5, dtype="float16")
    a, b = operands(shape, 0)
    a[0, 1, 3], a[0, 2, 17], a[0, 3, 0] = np.inf, -np.inf, np.nan
    plan = MatMulPlan(grain=16, partials=partials)
    rounding = Rounding(mode=mode, nanoo=nanoo)
    assert_agree(
        run_op(shape, plan, (a, b), rounding), run_reference(shape, plan, (a, b), rounding)
    )


def test_streams_count_their_calls_apart():
    shape = MatMulShape(m=8, k=32, n=8, dtype="float16")
    plan = MatMulPlan(grain=16, partials="float16")
    a, b = operands(shape, 0)
    library.reset_seed(21)
    ops = library.load()
    for stream, call in [(1, 0), (2, 0), (1, 1), (1, 2), (2, 1)]:
        rounding = Rounding(mode="stochastic", seed=21, stream=stream, call=call)
        result = ops.ipu_batch_mat_mul(a, b, **tile_attributes(plan, rounding))
        assert_agree(result.numpy(), run_reference(shape, plan, (a, b), rounding))


@pytest.mark.parametrize("nanoo", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "stochastic"])
def test_casts_to_float16(mode, nanoo):
    values = np.concatenate(
        [
            normals(0, 1000),
            normals(1, 1000, scale=1e-6),
            normals(2, 1000, scale=40000),
            np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520, 2**-25, 2**-24]),
        ]
    ).astype(np.float32)
    rounding = Rounding(mode=mode, nanoo=nanoo, seed=3, stream=8)
    library.reset_seed(rounding.seed)
    result = library.load().ipu_cast(
        values, DstT=tf.float16, rounding=mode, nanoo=nanoo, stream=rounding.stream
    )
    assert_agree(result.numpy(), rounding.on_tile(0)(values).astype(np.float16))


@functools.cache
def digests(isa, threads):
    """Returns the digests of a fresh process, for an instruction set ("" for the widest)."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.ops.digest_tile_ops", str(threads)],
        env=os.environ | ({"IPU_TF_ISA": isa} if isa else {}),
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["float16", "joined"])
@pytest.mark.slow
def test_results_depend_neither_on_threads_nor_on_the_instruction_set(kind):
    assert digests("avx2", 1)["isa"] == "avx2"
    assert digests("avx2", 1)[kind] == digests("", 2)[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float16", "float32", "joined"])
def test_results_do_not_depend_on_the_number_of_threads(kind):
    one, *others = (digests("", threads)[kind] for threads in (1, 2, 5))
    assert all(other == one for other in others)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float16", "joined"])
def test_results_do_not_depend_on_the_instruction_set(kind):
    assert digests("avx2", 2)["isa"] == "avx2"
    assert digests("avx2", 2)[kind] == digests("", 2)[kind]


@pytest.mark.slow
def test_digests_tell_results_apart():
    # 7 ops x 2 types of partials x 2 ways to round all give other float16 results.
    distinct = digests("", 2)["float16"]
    assert len(set(distinct)) == len(distinct) == 28
