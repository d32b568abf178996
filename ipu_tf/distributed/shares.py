"""The share of an instance of a dataset."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.processes.instances import Instances


def share_of(dataset: tf.data.Dataset, job: Instances) -> tf.data.Dataset:
    """Returns the elements of a dataset that the replicas of an instance get.

    Of as many elements as the job has replicas, each replica gets one. So each gets the same as in
    a job of one instance. Elements that are left over at the end are dropped.

    Args:
        dataset: Yields batches of one replica.
        job: The instance.
    """
    total, local, first = job.total_replicas, job.local_replicas, job.replica_offset
    if job.count == 1:
        return dataset
    unknown = tf.data.UNKNOWN_CARDINALITY
    count = int(dataset.cardinality()) if tf.executing_eagerly() else unknown
    if count >= 0:
        dataset = dataset.take(count // total * total)

    def is_own(number: tf.Tensor, element: Any) -> tf.Tensor:
        del element
        place = number % total
        return (first <= place) & (place < first + local)

    own = dataset.enumerate().filter(is_own).map(lambda number, element: element)
    if count == unknown:
        return own
    # A filter forgets how many elements there are.
    own_count = count // total * local if count >= 0 else count
    return own.apply(tf.data.experimental.assert_cardinality(own_count))
