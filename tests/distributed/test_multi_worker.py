"""The strategy of a cluster of one worker."""

import pytest
import tensorflow as tf

from ipu_tf.ipu_multi_worker_strategy import IPUMultiWorkerStrategy, IPUMultiWorkerStrategyV1


def cluster(**jobs):
    spec = tf.train.ClusterSpec(jobs)
    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec, "worker", 0)


def test_one_worker_runs_functions_as_programs():
    assert IPUMultiWorkerStrategy is IPUMultiWorkerStrategyV1
    strategy = IPUMultiWorkerStrategy(cluster(worker=["localhost:2222"], ps=["localhost:2223"]))
    with strategy.scope():
        variable = tf.Variable(2.0)
    product = strategy.run(tf.function(lambda x: x * variable), args=(tf.constant(3.0),))
    assert strategy.reduce("SUM", product, axis=None) == 6
    assert strategy.num_replicas_in_sync == 1
    assert IPUMultiWorkerStrategy(cluster()).num_replicas_in_sync == 1


def test_several_workers_are_refused():
    with pytest.raises(NotImplementedError, match=r"has 2 workers.*auto_select_ipus.*a:1, b:1"):
        IPUMultiWorkerStrategy(cluster(worker=["a:1", "b:1"]))
    with pytest.raises(TypeError, match="`cluster_resolver` must be a .*Received: 'worker'"):
        IPUMultiWorkerStrategy("worker")
