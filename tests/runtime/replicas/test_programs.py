"""Programs on several replicas, against NumPy models of as many workers."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.ops import cross_replica_ops, replication_ops


@pytest.fixture(autouse=True)
def _own_configuration():
    yield
    reset_ipu_configuration()


def on_ipus(count):
    """Returns a strategy on a device of so many IPUs."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = count
    cfg.configure_ipu_system()
    return IPUStrategy()


def index():
    return tf.cast(replication_ops.replication_index(), tf.float32)


def of_all(value, count):
    """Returns the values of all replicas of a program, one after the other."""
    place = tf.one_hot(replication_ops.replication_index(), count, dtype=value.dtype)
    place = tf.reshape(place, [count, *[1] * value.shape.rank])
    return cross_replica_ops.cross_replica_sum(place * value)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_program_runs_on_every_ipu_of_the_device(count):
    strategy = on_ipus(count)

    @tf.function
    def program(x):
        assert strategy.num_replicas == count
        return of_all(x * (index() + 1.0), count)

    assert strategy.num_replicas == count
    assert strategy.num_replicas_in_sync == 1
    x = np.float32([1.0, -2.0])
    expected = [x * (replica + 1) for replica in range(count)]
    np.testing.assert_array_equal(strategy.run(program, args=(tf.constant(x),)), expected)


def test_a_run_returns_what_replica_0_returns():
    strategy = on_ipus(2)

    @tf.function
    def program(x):
        return {"index": replication_ops.replication_index(), "nothing": None, "x": (x,)}

    results = strategy.run(program, args=(tf.constant(3.0),))
    assert results["nothing"] is None
    assert (int(results["index"]), float(results["x"][0])) == (0, 3.0)


def test_sums_in_nested_loops_and_conditions_join_all_replicas():
    strategy = on_ipus(4)

    @tf.function
    def halved(x):
        return cross_replica_ops.cross_replica_mean(x) / 2.0

    @tf.function
    def program(x):
        for outer in tf.range(2):
            for _ in tf.range(3):
                x = cross_replica_ops.cross_replica_sum(x * (index() + 1.0)) / 10.0
            if outer == 1:
                x = halved(x + index())
        return x

    x = np.zeros(4, np.float32) + 5.0
    ranks = np.arange(4, dtype=np.float32)
    for outer in range(2):
        for _ in range(3):
            x[:] = np.sum(x * (ranks + 1)) / 10
        if outer == 1:
            x[:] = np.mean(x + ranks) / 2
    np.testing.assert_allclose(strategy.run(program, args=(tf.constant(5.0),)), x[0], rtol=1e-6)


def test_a_collective_that_some_replicas_never_reach_fails_with_their_numbers():
    strategy = on_ipus(4)

    @tf.function
    def program(x):
        for _ in tf.range(2 + replication_ops.replication_index() // 3):
            x = cross_replica_ops.cross_replica_sum(x, name="total")
        return x

    message = "'while/total' is never reached by replicas 0, 1 and 2, which have ended; replica 3"
    with pytest.raises(tf.errors.FailedPreconditionError, match=message):
        strategy.run(program, args=(tf.constant(1.0),))


def test_replicas_at_different_collectives_fail_with_their_places():
    strategy = on_ipus(2)

    @tf.function
    def program(x):
        if replication_ops.replication_index() == 0:
            x = cross_replica_ops.cross_replica_sum(x, name="left")
        else:
            x = cross_replica_ops.cross_replica_sum(x, name="right")
        return x

    with pytest.raises(tf.errors.FailedPreconditionError, match=r"different collectives: .*left"):
        strategy.run(program, args=(tf.constant(1.0),))


def test_the_error_of_one_replica_ends_the_others():
    strategy = on_ipus(2)

    @tf.function
    def program(x):
        tf.debugging.assert_less(replication_ops.replication_index(), 1, "not on replica 1")
        return cross_replica_ops.cross_replica_sum(x)

    with pytest.raises(tf.errors.InvalidArgumentError, match="not on replica 1"):
        strategy.run(program, args=(tf.constant(1.0),))


def test_replicas_have_variables_of_their_own_until_one_is_assigned(caplog):
    strategy = on_ipus(2)
    with strategy.scope():
        count = tf.Variable(10.0, name="count")
        same = tf.Variable(1.0, name="same")

    @tf.function
    def program():
        count.assign_add(index() + 1.0)
        same.assign_add(1.0)
        return of_all(count, 2)

    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(strategy.run(program), [11.0, 12.0])
        np.testing.assert_array_equal(strategy.run(program), [12.0, 14.0])
    assert count.numpy() == 12.0
    notices = [one.getMessage() for one in caplog.records if one.name.startswith("ipu_tf")]
    assert len(notices) == 1
    assert "different values of 'count'. Outside of the program" in notices[0]
    count.assign(12.0)  # The value of replica 0 again, yet an assignment.
    np.testing.assert_array_equal(strategy.run(program), [13.0, 14.0])
    assert same.numpy() == 4.0


def test_data_parallel_training_is_that_of_the_large_batch():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 3)).astype(np.float32), rng.normal(size=8).astype(np.float32)
    strategy = on_ipus(4)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([3, 1]))

    @tf.function
    def step():
        mine = tf.constant(x.reshape(4, 2, 3))[replication_ops.replication_index()]
        labels = tf.constant(y.reshape(4, 2, 1))[replication_ops.replication_index()]
        for _ in tf.range(5):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((mine @ weights - labels) ** 2) / 8.0
            gradient = cross_replica_ops.cross_replica_sum(tape.gradient(loss, weights))
            weights.assign_sub(0.1 * gradient)

    strategy.run(step)
    expected = np.zeros((3, 1))
    for _ in range(5):
        expected -= 0.1 * 2 * x.T.astype(float) @ (x @ expected - y[:, None]) / 8
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-5)


def test_random_streams_differ_between_replicas_and_repeat_with_the_seed():
    strategy = on_ipus(4)

    def draws():
        tf.random.set_seed(3)

        @tf.function
        def program():
            values = tf.zeros([2])
            for _ in tf.range(2):
                values += tf.random.normal([2], seed=1)
            return of_all(values, 4)

        return np.array([strategy.run(program) for _ in range(2)])

    first = draws()
    assert len(np.unique(first)) == first.size
    np.testing.assert_array_equal(first, draws())
