"""The logs of all replicas of a job, reduced to those that callbacks see."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np
from keras import tree

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.options import ReplicatedMetricReductionMethod as Reduction
from ipu_tf.keras.replication.instance_values import gathered
from ipu_tf.processes.reduction_tree import reduced


def reduced_logs(logs: TensorStructure, reduction: Reduction) -> TensorStructure:
    """Returns the logs of a step, the same bits for any number of instances.

    Args:
        logs: A structure of values with a first axis, that of the replicas.
        reduction: How the values of replicas are reduced.
    """
    reduce: Callable[[np.ndarray], np.ndarray] = {
        Reduction.NONE: lambda values: values[-1],
        Reduction.LIST: lambda values: values if len(values) > 1 else values[-1],
        Reduction.SUM: _sum,
        Reduction.MEAN: lambda values: (_sum(values) / len(values)).astype(values.dtype),
    }[reduction]
    return tree.map_structure(lambda leaf: reduce(np.asarray(leaf)), logs)


def of_all_instances(
    logs: Mapping[str, TensorStructure], *, name: str
) -> Mapping[str, TensorStructure]:
    """Returns the logs of the replicas of all instances; in a process alone, those given.

    Args:
        logs: Values with a first axis, that of the replicas here, by their names.
        name: What is joined, for errors.
    """
    if not logs:
        return logs
    values = gathered([np.asarray(leaf) for leaf in tree.flatten(logs)], name=name)
    all_logs: Mapping[str, TensorStructure] = tree.pack_sequence_as(logs, values)
    return all_logs


def _sum(values: np.ndarray) -> np.ndarray:
    return reduced(dict(enumerate(values)), len(values), operator.add)
