"""The batches of a group of replicas whose replicas are those of several instances."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from keras import tree

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.replication.instance_values import gathered
from ipu_tf.keras.replication.replicas import Replicas
from ipu_tf.processes.instances import instances


def of_whole_group(batches: TensorStructure, replicas: Replicas, *, name: str) -> TensorStructure:
    """Returns the batches of all replicas of a group, with a first axis for the replicas.

    Args:
        batches: A structure of tensors: those of the replicas here, with such an axis if these are
            several. None for missing parts.
        replicas: How the model is replicated.
        name: Whose batches are joined, for errors.
    """
    leaves = [leaf for leaf in tree.flatten(batches) if leaf is not None]
    if replicas.local == 1:
        leaves = [leaf[tf.newaxis] for leaf in leaves]

    def exchange(*arrays: np.ndarray) -> list[np.ndarray]:
        start = instances().index - replicas.place
        members = range(start, start + replicas.span)
        return gathered(arrays, name=f"batches of {name}", members=members)

    values = tf.numpy_function(exchange, leaves, [leaf.dtype for leaf in leaves])
    group_leaves = iter(
        tf.ensure_shape(one, [replicas.count, *leaf.shape[1:]])
        for one, leaf in zip(values, leaves, strict=True)
    )
    return tree.map_structure(lambda leaf: None if leaf is None else next(group_leaves), batches)
