"""What programs on several replicas have in common."""

import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.ops import cross_replica_ops, replication_ops


def on_ipus(count):
    """Returns a strategy on a device of so many IPUs."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = count
    cfg.configure_ipu_system()
    return IPUStrategy()


def index():
    """Returns the number of the replica as a float32."""
    return tf.cast(replication_ops.replication_index(), tf.float32)


def of_all(value, count):
    """Returns the values of all replicas of a program, one after the other."""
    place = tf.one_hot(replication_ops.replication_index(), count, dtype=value.dtype)
    place = tf.reshape(place, [count, *[1] * value.shape.rank])
    return cross_replica_ops.cross_replica_sum(place * value)
