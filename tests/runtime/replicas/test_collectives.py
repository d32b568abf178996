"""Collectives and their gradients against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.config import reset_ipu_configuration
from ipu_tf.ops import (
    all_to_all_op,
    cross_replica_ops,
    reduce_scatter_op,
    replication_ops,
)
from tests.runtime.replicas.programs import of_all, on_ipus

REPLICAS = 4


@pytest.fixture(scope="module")
def strategy():
    yield on_ipus(REPLICAS)
    reset_ipu_configuration()


def run(strategy, function, *values):
    """Returns what `function` returns on all replicas; values have an axis of replicas."""

    @tf.function
    def program():
        index = replication_ops.replication_index()
        return of_all(function(*(tf.constant(value)[index] for value in values)), REPLICAS)

    return strategy.run(program).numpy()


def values(*shape, dtype=np.float32):
    """Returns different values for each replica, whose sums are exact."""
    return np.random.default_rng(1).integers(-4, 5, [REPLICAS, *shape]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.fast_cells(1)
def test_sums_and_means_of_groups(strategy, dtype):
    x = values(3, dtype=dtype)

    def program(x):
        whole = cross_replica_ops.cross_replica_sum(x)
        pairs = cross_replica_ops.cross_replica_sum(x, replica_group_size=2)
        single = cross_replica_ops.cross_replica_sum(x, replica_group_size=1)
        mean = cross_replica_ops.cross_replica_mean(4 * x, replica_group_size=2)
        of_all = cross_replica_ops.cross_replica_mean(4 * x, replica_group_size=0)
        return tf.stack([whole, pairs, single, mean, of_all])

    groups = x.reshape(2, 2, 3).sum(1).repeat(2, 0)
    total = np.tile(x.sum(0), (4, 1))
    expected = np.stack([total, groups, x, 2 * groups, total], axis=1)
    np.testing.assert_array_equal(run(strategy, program, x), expected)


def test_sums_go_through_a_balanced_tree(strategy):
    x = np.float32([[2**24], [1], [1], [-(2**24)]])  # In order, 1 would be lost twice.
    expected = np.float32((x[0] + x[1]) + (x[2] + x[3]))
    assert expected != ((x[0] + x[1]) + x[2]) + x[3]
    found = run(strategy, cross_replica_ops.cross_replica_sum, x)
    np.testing.assert_array_equal(found, np.tile(expected, (4, 1)))


def test_means_of_all_replicas_divide_once(strategy):
    x = np.float32([[0.1], [0.2], [0.3], [0.4]])
    expected = np.float32(np.sum(x, dtype=np.float32) / np.float32(4))
    found = run(strategy, cross_replica_ops.cross_replica_mean, x)
    np.testing.assert_allclose(found, np.full((4, 1), expected), rtol=1e-7)


def test_all_gather_all_to_all_and_reduce_scatter(strategy):
    x, y = values(8, 2), values(6)

    def program(x, y):
        gathered = all_to_all_op.all_gather(y, REPLICAS)
        pairs = all_to_all_op.all_gather(y, 2)
        exchanged = all_to_all_op.all_to_all(x, 0, 1, REPLICAS)
        part = reduce_scatter_op.reduce_scatter(y, REPLICAS)
        own = reduce_scatter_op.reduce_scatter(y, REPLICAS, "COLLECTIVE_OP_LOCAL")
        return tf.concat([tf.reshape(t, [-1]) for t in (gathered, pairs, exchanged, part, own)], 0)

    padded = np.pad(y, [[0, 0], [0, 2]])
    expected = []
    for replica in range(REPLICAS):
        pair = replica // 2 * 2
        parts = [x[other, 2 * replica : 2 * replica + 2] for other in range(REPLICAS)]
        mine = slice(2 * replica, 2 * replica + 2)
        expected.append(
            np.concatenate(
                [
                    y.ravel(),
                    y[pair : pair + 2].ravel(),
                    np.concatenate(parts, axis=1).ravel(),
                    padded.sum(0)[mine],
                    padded[replica, mine],
                ]
            )
        )
    np.testing.assert_array_equal(run(strategy, program, x, y), expected)


REDUCTIONS = {
    "COLLECTIVE_OP_MEAN": lambda x: x.mean(0),
    "COLLECTIVE_OP_MUL": lambda x: x.prod(0),
    "COLLECTIVE_OP_MIN": lambda x: x.min(0),
    "COLLECTIVE_OP_MAX": lambda x: x.max(0),
    "COLLECTIVE_OP_SQUARE_ADD": lambda x: (x**2).sum(0),
}


def test_all_gather_takes_several_tensors(strategy):
    x = values(3)

    def program(x):
        whole, half = all_to_all_op.all_gather([x, tf.cast(x, tf.float16)], REPLICAS)
        assert half.dtype == tf.float16
        return tf.stack([whole, tf.cast(half, tf.float32)])

    np.testing.assert_array_equal(run(strategy, program, x), np.tile(x, (4, 2, 1, 1)))


def test_reductions(strategy):
    x = values(REPLICAS)
    bits = values(REPLICAS) > 0

    def program(x, bits):
        parts = [reduce_scatter_op.reduce_scatter(x, REPLICAS, op) for op in REDUCTIONS]
        for op in ("COLLECTIVE_OP_LOGICAL_AND", "COLLECTIVE_OP_LOGICAL_OR"):
            part = reduce_scatter_op.reduce_scatter(bits, REPLICAS, op)
            parts.append(tf.cast(part, tf.float32))
        return tf.concat(parts, 0)

    expected = [*(numpy(x) for numpy in REDUCTIONS.values()), bits.all(0), bits.any(0)]
    found = run(strategy, program, x, bits)
    np.testing.assert_array_equal(found, np.transpose(np.float32(expected)))


def test_gradients_are_collectives_again(strategy):
    x, weights = values(4), values(4, 4)

    def program(x, weights):
        with tf.GradientTape() as tape:
            tape.watch(x)
            gathered = all_to_all_op.all_gather(x, REPLICAS)
            exchanged = all_to_all_op.all_to_all(gathered * x, 0, 1, REPLICAS)
            total = cross_replica_ops.cross_replica_sum(x * weights[0])
            mean = cross_replica_ops.cross_replica_mean(x * weights[1])
            part = reduce_scatter_op.reduce_scatter(x * weights[2], REPLICAS)
            loss = tf.reduce_sum(gathered * weights) + tf.reduce_sum(total * weights[3])
            loss += tf.reduce_sum(mean * weights[0]) + 2.0 * tf.reduce_sum(part)
            loss += tf.reduce_sum(exchanged * tf.reshape(weights, [1, 16]))
        return tape.gradient(loss, x)

    with tf.GradientTape() as tape:
        every = [tf.constant(one) for one in x]
        tape.watch(every)
        gathered = tf.stack(every)
        loss = 0.0
        products = [gathered * one for one in every]
        for replica in range(REPLICAS):
            w = weights[replica]
            loss += tf.reduce_sum(gathered * w)
            exchanged = tf.concat([one[replica : replica + 1] for one in products], 1)
            loss += tf.reduce_sum(exchanged * w.reshape(1, 16))
        total = tf.add_n([one * w[0] for one, w in zip(every, weights, strict=True)])
        loss += tf.reduce_sum(total * weights[:, 3].sum(0))
        mean = tf.add_n([one * w[1] for one, w in zip(every, weights, strict=True)]) / 4.0
        loss += tf.reduce_sum(mean * weights[:, 0].sum(0))
        loss += 2.0 * tf.add_n(
            [tf.reduce_sum(o * w[2]) for o, w in zip(every, weights, strict=True)]
        )
    expected = tape.gradient(loss, every)
    np.testing.assert_allclose(run(strategy, program, x, weights), expected, rtol=1e-6)


@pytest.mark.slow
def test_gradients_pass_collectives_of_functions_in_branches(strategy):
    x = values(1)

    @tf.function(autograph=False)
    def total(x):
        return cross_replica_ops.cross_replica_sum(x * x)

    @tf.function(autograph=False)
    def branch(x):
        return tf.cond(tf.constant(True), lambda: total(x), lambda: x)

    def program(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = branch(x)  # The gradient of a function and, in a loop, that of its body.
            _, y = tf.while_loop(lambda i, _: i < 1, lambda i, y: (i + 1, branch(y)), [0, y])
        return tape.gradient(y, x)

    # Of y = (the sum of x^2)^2 * 4 on each replica, summed over the replicas.
    expected = 4 * 4 * 2 * (x**2).sum() * 2 * x
    np.testing.assert_allclose(run(strategy, program, x), expected, rtol=1e-6)


def test_reductions_without_a_gradient_say_so(strategy):
    @tf.function(autograph=False)
    def program():
        with tf.GradientTape() as tape:
            x = tf.ones([4])
            tape.watch(x)
            y = reduce_scatter_op.reduce_scatter(x, REPLICAS, "COLLECTIVE_OP_MAX", name="largest")
        return tape.gradient(y, x)

    with pytest.raises(LookupError, match="'largest' has no gradient: it reduces values by 'max'"):
        strategy.run(program)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: cross_replica_ops.cross_replica_sum(x, 3), "`replica_group_size` must divide"),
        (lambda x: all_to_all_op.all_gather(x, 8), "`replication_factor` must divide"),
        (lambda x: all_to_all_op.all_to_all(x, 0, 0, 4), "cannot split the tensor"),
        (lambda x: all_to_all_op.all_to_all(x, 0, 2, 1), "`concat_dimension` must be an axis"),
        (lambda x: reduce_scatter_op.reduce_scatter(x, 2, "SUM"), "must be one of COLLECTIVE_OP_"),
        (lambda x: reduce_scatter_op.reduce_scatter(x[None], 2), "tensors of rank 1"),
    ],
)
def test_bad_arguments_say_what_came(strategy, call, message):
    @tf.function(autograph=False)
    def program():
        return call(tf.zeros([3]))

    with pytest.raises(ValueError, match=message):
        strategy.run(program)


def test_collectives_take_shapes_of_tensorflow_1(strategy):
    tf.compat.v1.disable_v2_tensorshape()
    try:

        @tf.function
        def program(x):
            part = reduce_scatter_op.reduce_scatter(x, REPLICAS)
            parts = all_to_all_op.all_gather(part, REPLICAS)
            return parts, all_to_all_op.all_to_all(parts, 0, 1, REPLICAS)

        parts, exchanged = strategy.run(program, args=(tf.range(6.0),))
    finally:
        tf.compat.v1.enable_v2_tensorshape()
    np.testing.assert_array_equal(parts, [[0, 4], [8, 12], [16, 20], [0, 0]])
    np.testing.assert_array_equal(exchanged, [[0, 4] * REPLICAS])


def test_unsuitable_values_are_refused(strategy):
    @tf.function(autograph=False)
    def program():
        return cross_replica_ops.cross_replica_sum(tf.zeros([3], tf.complex64))

    with pytest.raises(TypeError, match="do not exchange values of type complex64"):
        strategy.run(program)
    open_shape = tf.function(
        lambda x: cross_replica_ops.cross_replica_sum(
            tf.compat.v1.placeholder_with_default(x, [None])
        )
    )
    with pytest.raises(ValueError, match="replicas exchange must be static. Received: \\(None,"):
        strategy.run(open_shape, args=(tf.ones([2]),))
    with pytest.raises(TypeError, match=r"must be a whole number or None. Received: 2.0"):
        cross_replica_ops.cross_replica_sum(1.0, 2.0)


def test_collectives_outside_of_a_program_join_one_replica():
    x = tf.constant([1.0, 2.0])
    assert int(replication_ops.replication_index()) == 0
    np.testing.assert_array_equal(cross_replica_ops.cross_replica_sum(x), x)
    np.testing.assert_array_equal(cross_replica_ops.cross_replica_mean(x), x)
    np.testing.assert_array_equal(all_to_all_op.all_gather(x, 1), [x])
    np.testing.assert_array_equal(reduce_scatter_op.reduce_scatter([x, x], 1), [x, x])
    equal = cross_replica_ops.assume_equal_across_replicas({"x": x}, inplace=True)
    np.testing.assert_array_equal(equal["x"], x)
