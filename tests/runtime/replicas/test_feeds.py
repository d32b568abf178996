"""Infeeds, outfeeds and iterators of programs on several replicas."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import loops
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_tf.ops import cross_replica_ops, replication_ops
from tests.runtime.replicas.programs import of_all, on_ipus

REPLICAS = 4


@pytest.fixture(scope="module")
def strategy():
    yield on_ipus(REPLICAS)
    reset_ipu_configuration()


def numbers(count):
    return tf.data.Dataset.range(count).map(lambda number: tf.cast(number, tf.float32))


@pytest.mark.slow
def test_feeds_have_an_axis_of_replicas_in_nested_loops_and_conditions(strategy):
    infeed, every = IPUInfeedQueue(numbers(100)), IPUOutfeedQueue()
    last, nested = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST), IPUOutfeedQueue()

    @tf.function
    def program():
        def body(total, x):
            every.enqueue((x, {"sum": cross_replica_ops.cross_replica_sum(x)}))
            last.enqueue(x)
            for number in tf.range(3):
                if number != 1:
                    nested.enqueue(x + 0.25 * tf.cast(number, tf.float32))
            return total + x

        return loops.repeat(3, body, [0.0], infeed)

    for run in range(2):
        taken = np.arange(12.0).reshape(3, REPLICAS) + 12 * run
        assert strategy.run(program) == taken[:, 0].sum()
        x, others = every.dequeue()
        np.testing.assert_array_equal(x, taken)
        sums = taken.sum(1, keepdims=True).repeat(REPLICAS, 1)
        np.testing.assert_array_equal(others["sum"], sums)
        np.testing.assert_array_equal(last.dequeue(), taken[-1])
        expected = np.stack([taken, taken + 0.5], axis=1).reshape(6, REPLICAS)
        np.testing.assert_array_equal(nested.dequeue(), expected)


def test_a_while_loop_reads_and_enqueues_on_each_replica(strategy):
    infeed, outfeed = IPUInfeedQueue(numbers(100)), IPUOutfeedQueue()

    @tf.function
    def program():
        def body(count, total, element):
            total += cross_replica_ops.cross_replica_sum(element)
            return count + 1, total, outfeed.enqueue((total, element))

        return loops.while_loop(lambda _, total: total < 60.0, body, [0, 0.0], infeed)

    count, total = strategy.run(program)
    totals, elements = outfeed.dequeue()
    assert (int(count), float(total)) == (3, 66)
    np.testing.assert_array_equal(totals, np.repeat([[6], [28], [66]], REPLICAS, axis=1))
    np.testing.assert_array_equal(elements, np.arange(3 * REPLICAS).reshape(3, REPLICAS))


def test_replicas_share_the_elements_of_an_iterator(strategy):
    with strategy.scope():
        given, captured = iter(numbers(100)), iter(numbers(100))

    @tf.function
    def program(iterator):
        total = tf.zeros([2])
        for _ in tf.range(2):
            total += tf.stack([next(iterator), next(captured) * 10.0])
        return of_all(total, REPLICAS)

    for run in range(2):
        taken = np.arange(8.0).reshape(2, REPLICAS).sum(0) + 16 * run
        expected = np.stack([taken, 10 * taken], axis=1)
        np.testing.assert_array_equal(strategy.run(program, args=(given,)), expected)


def test_replicas_that_read_more_get_their_own_elements_all_the_same(strategy):
    with strategy.scope():
        iterator = iter(numbers(32))

    @tf.function
    def program():
        total = tf.constant(0.0)
        for _ in tf.range(1 + replication_ops.replication_index()):
            total += next(iterator)
        return of_all(total, REPLICAS)

    taken = [range(replica, 32, REPLICAS) for replica in range(REPLICAS)]
    expected = [sum(own[: replica + 1]) for replica, own in enumerate(taken)]
    np.testing.assert_array_equal(strategy.run(program), expected)
    again = [sum(own[replica + 1 : 2 * replica + 2]) for replica, own in enumerate(taken)]
    np.testing.assert_array_equal(strategy.run(program), again)


def test_the_end_of_the_data_ends_all_replicas(strategy):
    with strategy.scope():
        iterator = iter(numbers(6))

    @tf.function
    def program():
        for _ in tf.range(2):
            total = cross_replica_ops.cross_replica_sum(next(iterator))
        return total

    with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
        strategy.run(program)


def test_an_iterator_does_not_say_whether_it_has_more(strategy):
    iterator = iter(numbers(6))

    @tf.function
    def program():
        total = tf.constant(0.0)
        for x in iterator:
            total += x
        return total

    with pytest.raises(NotImplementedError, match="asks an iterator whether it has a next element"):
        strategy.run(program)
