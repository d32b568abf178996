"""The name that `PopDistStrategy` had in the vendor's earlier releases."""

from ipu_tf.distributed.popdist_strategy import PopDistStrategy as IPUMultiReplicaStrategy

__all__ = ["IPUMultiReplicaStrategy"]
