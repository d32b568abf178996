"""Operations in float16: values and gradients are those of float32, rounded."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops import (
    cross_replica_ops,
    ctc_ops,
    embedding_ops,
    image_ops,
    internal_ops,
    math_ops,
    nn_ops,
    rnn_ops,
    slicing_ops,
    within_replica_ops,
)

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(8)
TABLE = RANDOM.normal(size=(6, 4)).astype("float16")
IDS = np.array([[5, 0], [2, 5]])
OTHER = RANDOM.normal(size=(4, 3)).astype("float16")
SEQUENCES = RANDOM.normal(size=(3, 2, 4)).astype("float16")
ROWS = np.array([2, 1], "int32")


def ctc(x):
    labels, lengths = np.array([[1, 2], [3, 0]]), np.array([2, 1])
    return ctc_ops.ctc_loss_v2(labels, x, lengths, np.array([3, 3]), 0)


def nce(x):
    drawn = np.array([1, 3], "int32"), np.ones((6, 1), "float32"), np.ones(2, "float32")
    weights = tf.cast(TABLE, x.dtype)
    labels = np.arange(6)[:, None]
    return nn_ops.nce_loss(weights, weights[:, 0], labels, x, 2, 6, sampled_values=drawn)


def recurrent(layer):
    def run(x):
        made = layer(
            2,
            dtype=x.dtype,
            weights_initializer=tf.keras.initializers.Constant(0.25),
            return_state=False,
        )
        return made(x)

    return run


CASES = {
    "embedding_lookup": (lambda x: embedding_ops.embedding_lookup(x, IDS, 2), TABLE),
    "serialized_matmul": (
        lambda x: math_ops.serialized_matmul(x, tf.cast(OTHER, x.dtype), 2, "a_rows_b_columns"),
        TABLE,
    ),
    "segment_sum": (lambda x: math_ops.segment_sum(x, [0, 0, 1, 1, 1, 3], 4), TABLE),
    "sequence_slice_unpack": (
        lambda x: slicing_ops.sequence_slice_unpack(x, ROWS, ROWS, 5),
        TABLE,
    ),
    "normalise_image": (
        lambda x: image_ops.normalise_image(x, [0.5, 1, 2], [2, 0.5, 1], 0.5),
        TABLE[:, :3],
    ),
    "ctc_loss": (ctc, SEQUENCES),
    "nce_loss": (nce, TABLE),
    "lstm": (recurrent(rnn_ops.PopnnLSTM), SEQUENCES),
    "gru": (recurrent(rnn_ops.PopnnGRU), SEQUENCES),
    "all_reduce": (
        lambda x: within_replica_ops.all_reduce([x[0], x[1]], "COLLECTIVE_OP_MAX")[0],
        TABLE,
    ),
    "cross_replica_mean": (cross_replica_ops.cross_replica_mean, TABLE),
    "remap": (internal_ops.remap, TABLE),
}


@pytest.fixture(scope="module")
def results():
    """Values and gradients of all cases, by dtype: a program for each."""
    strategy = IPUStrategy(enable_keras_extensions=False)

    @tf.function
    def program(inputs):
        found = {}
        for name, (function, _) in CASES.items():
            with tf.GradientTape() as tape:
                tape.watch(inputs[name])
                value = function(inputs[name])
                loss = tf.reduce_sum(tf.cast(value, tf.float32) ** 2)
            gradient = tape.gradient(loss, inputs[name])
            found[name] = value, tf.convert_to_tensor(gradient)
        return found

    return {
        dtype: strategy.run(
            program, args=({name: tf.constant(x, dtype) for name, (_, x) in CASES.items()},)
        )
        for dtype in ("float16", "float32")
    }


@pytest.mark.parametrize("name", CASES)
def test_float16_gives_the_numbers_of_float32(name, results):
    for half, single in zip(results["float16"][name], results["float32"][name], strict=True):
        assert (half.dtype, single.dtype) == (tf.float16, tf.float32)
        assert half.shape == single.shape
        largest = np.abs(single).max()
        assert largest > 0
        np.testing.assert_allclose(half, single, rtol=4e-3, atol=4e-3 * largest)
