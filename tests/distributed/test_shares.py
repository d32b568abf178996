"""The share of an instance of a dataset."""

import pytest
import tensorflow as tf

from ipu_tf.distributed.shares import share_of
from ipu_tf.processes.instances import Instances


def instance(index, count=2, local=2):
    return Instances(
        index=index,
        count=count,
        total_replicas=count * local,
        local_replicas=local,
        replica_offset=index * local,
    )


def elements(dataset):
    return [int(pair[0]) for pair in dataset]


@pytest.fixture
def pairs():
    return tf.data.Dataset.range(10).map(lambda x: (x, tf.ones((3,))))


def test_each_replica_gets_what_it_gets_in_one_process(pairs):
    shares = [share_of(pairs, instance(index)) for index in range(2)]
    assert [elements(share) for share in shares] == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert [int(share.cardinality()) for share in shares] == [4, 4]
    assert shares[0].element_spec == pairs.element_spec


def test_a_job_of_one_instance_has_all(pairs):
    assert share_of(pairs, instance(0, count=1, local=4)) is pairs


@pytest.mark.parametrize("count", [tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY])
def test_the_number_of_elements_may_be_unknown(pairs, count):
    if count == tf.data.INFINITE_CARDINALITY:
        share = share_of(pairs.repeat(), instance(1))
    else:
        share = share_of(pairs.filter(lambda *_: True), instance(1))
    assert int(share.cardinality()) == count
    assert elements(share.take(4)) == [2, 3, 6, 7]
