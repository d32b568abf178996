"""Collectives between the instances of a job, which are processes."""

from ipu_tf.distributed import popdist_strategy
from ipu_tf.distributed.host_collectives import allgather, allreduce, broadcast

__all__ = ["allgather", "allreduce", "broadcast", "popdist_strategy"]
