"""Collectives over the IPUs of a replica."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops import within_replica_ops

SHARDS = [np.array(values, "float32") for values in ([1, 2, 3], [4, 0, -6], [7, 8, 9])]
NUMPY = {
    "COLLECTIVE_OP_ADD": np.sum,
    "COLLECTIVE_OP_MUL": np.prod,
    "COLLECTIVE_OP_MIN": np.min,
    "COLLECTIVE_OP_MAX": np.max,
    "COLLECTIVE_OP_LOGICAL_AND": np.all,
    "COLLECTIVE_OP_LOGICAL_OR": np.any,
    "COLLECTIVE_OP_SQUARE_ADD": lambda values, axis: np.sum(np.square(values), axis=axis),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", NUMPY)
def test_every_ipu_has_the_reduction(op, dtype):
    shards = [shard.astype(dtype) for shard in SHARDS]
    expected = NUMPY[op](np.stack(shards), axis=0).astype(dtype)
    found = within_replica_ops.all_reduce([tf.constant(shard) for shard in shards], op)
    assert len(found) == 3
    for one in found:
        assert one.dtype == dtype
        np.testing.assert_array_equal(one, expected)


def test_parts_of_a_reduction_are_padded():
    shards = [tf.constant([1.0, 2, 3, 4, 5]), tf.constant([10.0, 20, 30, 40, 50])]
    found = within_replica_ops.reduce_scatter(shards, "COLLECTIVE_OP_ADD")
    np.testing.assert_array_equal(found[0], [11, 22, 33])
    np.testing.assert_array_equal(found[1], [44, 55, 0])
    found = within_replica_ops.reduce_scatter(shards, "COLLECTIVE_OP_LOCAL")
    np.testing.assert_array_equal(found[1], [40, 50, 0])


def test_vectors_are_padded_to_the_longest():
    shards = [tf.constant([1.0, 2]), tf.constant([10.0, 20, 30]), tf.constant([5.0])]
    for one in within_replica_ops.all_reduce(shards, "COLLECTIVE_OP_ADD"):
        np.testing.assert_array_equal(one, [16, 22, 30])
    parts = within_replica_ops.reduce_scatter(shards, "COLLECTIVE_OP_MAX")
    np.testing.assert_array_equal(parts, [[10], [20], [30]])


def test_shards_are_gathered():
    for one in within_replica_ops.all_gather([SHARDS[0], SHARDS[1][:1]]):
        np.testing.assert_array_equal(one, [1, 2, 3, 4])
    for one in within_replica_ops.all_gather([1.0, 2.0]):
        np.testing.assert_array_equal(one, [1, 2])
    for one in within_replica_ops.all_gather([SHARDS[0][None], SHARDS[1][None]], axis=1):
        np.testing.assert_array_equal(one, [[1, 2, 3, 4, 0, -6]])


def test_gradients_flow_to_every_shard():
    shards = [tf.Variable(shard) for shard in SHARDS]
    with tf.GradientTape() as tape:
        total = within_replica_ops.all_reduce(list(shards), "COLLECTIVE_OP_SQUARE_ADD")[1]
        parts = within_replica_ops.reduce_scatter(list(shards), "COLLECTIVE_OP_ADD")
        loss = tf.reduce_sum(total) + 10 * parts[2][0]
    for gradient, shard in zip(tape.gradient(loss, shards), SHARDS, strict=True):
        np.testing.assert_allclose(gradient, 2 * shard + [0, 0, 10])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: within_replica_ops.all_gather([]), "all_gather: pass a list with a tensor for"),
        (
            lambda: within_replica_ops.all_reduce([SHARDS[0]] * 2, "COLLECTIVE_OP_ADD"),
            "all_reduce: the shards must be unique",
        ),
        (
            lambda: within_replica_ops.all_gather([SHARDS[0], np.array([1])]),
            r"must have the same type and rank. Received: float32\(3,\), int64\(1,\)",
        ),
        (
            lambda: within_replica_ops.all_reduce(
                [SHARDS[0][None], SHARDS[1][None, :1]], "COLLECTIVE_OP_ADD"
            ),
            r"the shards must have one shape, or be vectors. Received: \[1, 3\], \[1, 1\]",
        ),
        (
            lambda: within_replica_ops.reduce_scatter(
                [SHARDS[0][None], SHARDS[1][None]], "COLLECTIVE_OP_ADD"
            ),
            "reduce_scatter: the shards must be of rank 0 or 1",
        ),
        (lambda: within_replica_ops.all_reduce(SHARDS, "ADD"), "`op` must be one of COLLECTIVE_OP"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
