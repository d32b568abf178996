"""Feeds with the synthetic data that TF_POPLAR_FLAGS requests."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, loops
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        ("--synthetic_data_categories=infeed", 0.0),
        ("--synthetic_data_categories=infeed --synthetic_data_initializer=2", 2.0),
    ],
)
def test_infeeds_give_made_up_elements(monkeypatch, flags, value):
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors([7.0, 7.0]))
    total = tf.function(lambda: loops.repeat(3, lambda v, x: v + x, [tf.zeros([2])], infeed))
    np.testing.assert_array_equal(IPUStrategy().run(total), [3 * value] * 2)


def test_null_feeds_give_zeros_without_end_and_read_no_data(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--null_data_feed")

    def fail():
        raise AssertionError("the dataset is read")
        yield 7.0

    spec = tf.TensorSpec([], tf.float32)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_generator(fail, output_signature=spec))
    total = tf.function(lambda: loops.repeat(3, lambda v, x: v + x, [tf.constant(1.0)], infeed))
    assert IPUStrategy().run(total) == 1.0


def test_an_initializer_that_is_no_number(monkeypatch):
    flags = "--synthetic_data_categories=infeed --synthetic_data_initializer=x"
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors([7.0]))
    read = tf.function(lambda: loops.repeat(1, lambda v, x: v + x, [tf.zeros([1])], infeed))
    with pytest.raises(ValueError, match="initializer"):
        IPUStrategy().run(read)


def test_outfeeds_stay_empty(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data")
    queue, last = IPUOutfeedQueue(), IPUOutfeedQueue(IPUOutfeedMode.LAST)

    @tf.function
    def program():
        queue.enqueue(tf.zeros([4]))
        last.enqueue(1.0)

    IPUStrategy().run(program)
    assert queue.dequeue().shape == (0, 4)
    with pytest.raises(tf.errors.FailedPreconditionError, match="the last value from an"):
        last.dequeue()
