"""Prints digests of tile op results; run with a thread count to see that none depends on it."""

import dataclasses
import hashlib
import itertools
import json
import sys

import numpy as np
import tensorflow as tf

from ipu_tf.ops.kernels import library
from ipu_tf.ops.reference import Rounding
from ipu_tf.planner.plan import ConvPlan, ConvShape, MatMulPlan, MatMulShape
from ipu_tf.planner.shapes import CONV_PASSES
from tests.ops.tile_op_calls import operands, run_op

MATMUL_PLAN = {"rows": 3, "columns": 2, "reduction": 3, "grain": 16}
CONV_PLAN = {"batch": 2, "groups": 2, "field_rows": 3, "in_channels": 1, "grain": 16}


def digests(dtype):
    """Yields a digest per op, type of partials and rounding."""
    matmul = MatMulShape(batch=2, m=131, k=117, n=75, dtype=dtype)
    conv = ConvShape(
        batch=4,
        in_rows=15,
        in_columns=17,
        in_channels=20,
        out_channels=36,
        groups=2,
        kernel_rows=3,
        kernel_columns=3,
        out_rows=8,
        out_columns=9,
        strides=(2, 2),
        padding=(1, 1, 1, 1),
        dtype=dtype,
    )
    cases = [(matmul, MatMulPlan, MATMUL_PLAN)]
    depthwise = dataclasses.replace(conv, groups=36, in_channels=1, out_channels=1)
    for one, pass_ in itertools.product((conv, depthwise), CONV_PASSES):
        cases.append((dataclasses.replace(one, pass_=pass_), ConvPlan, CONV_PLAN))
    for shape, plan_type, splits in cases:
        for partials in ("float32", "float16"):
            for mode in ("nearest", "stochastic"):
                plan = plan_type(**splits, partials=partials)
                rounding = Rounding(mode=mode, seed=7, stream=3)
                result = run_op(shape, plan, operands(shape, 0), rounding)
                yield hashlib.sha256(np.ascontiguousarray(result)).hexdigest()


def joined_digests():
    """Yields a digest of each of the joined element-wise ops."""
    ops = library.load()
    random = np.random.default_rng(2)
    x = tf.nn.relu(random.normal(size=(9, 60, 46, 37)).astype(np.float32))
    key, counter = tf.constant([2**40 + 3], tf.uint64), tf.constant([2**64 - 99, 1], tf.uint64)
    kept = ops.ipu_dropout_mask(key, counter, rate=0.4, shape=x.shape)
    pool = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    y = tf.nn.max_pool2d(x, 3, 2, "SAME")
    results = (
        kept,
        ops.ipu_masked_scale(x, kept, 1.0 / 0.6),
        ops.ipu_max_pool_grad(x, y, tf.sin(y + 1.0), relu=True, **pool),
    )
    for result in results:
        yield hashlib.sha256(result.numpy().tobytes()).hexdigest()


def main() -> None:
    """Prints the instruction set and the digests as JSON."""
    tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
    report = {dtype: list(digests(dtype)) for dtype in ("float16", "float32")}
    report["joined"] = list(joined_digests())
    print(json.dumps(report | {"isa": library.isa()}))


if __name__ == "__main__":
    main()
