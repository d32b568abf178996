"""Names and arguments of the vendor's earlier releases, outside of Keras."""

import pytest
import tensorflow as tf

from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("vendor_names")


def test_feeds_take_their_names_by_position():
    numbers = tf.data.Dataset.range(4).map(lambda i: tf.cast(i, tf.float32))
    IPUInfeedQueue(numbers, "numbers", 0, replication_factor=2, data_to_prefetch=2)
    queue = IPUOutfeedQueue("results", IPUOutfeedMode.LAST, replication_factor=2, io_batch_size=2)
    assert not queue.enqueued
    assert not IPUOutfeedQueue(feed_name="results").enqueued


def test_no_graph_is_sharded_by_itself():
    from tensorflow.python.ipu.autoshard import automatic_sharding

    with pytest.raises(NotImplementedError, match=r"`autoshard\.automatic_sharding` does not"):
        automatic_sharding(2, None, None)
