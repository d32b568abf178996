"""The replication of a model: the number of replicas, their groups, and the state of each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ipu_tf.keras.adapters.models import ModelAdapter
from ipu_tf.keras.replication.replica_state import ReplicaState
from ipu_tf.processes.instances import instances


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The replication of a model.

    Attributes:
        count: Number of replicas in this process.
        group: Number of replicas that share the statistics of batch norm. A group runs as one
            batch, and its replicas share the states of batch norm and of random generators.
        instances: Number of instances of the job, which have equally many replicas.
        instance: Number of this instance.
        group_state: The state that each group keeps, None with a single group.
        metrics: The state of metrics of each replica, None with a single replica.
    """

    count: int = 1
    group: int = 1
    instances: int = 1
    instance: int = 0
    group_state: ReplicaState | None = None
    metrics: ReplicaState | None = None

    @property
    def groups(self) -> int:
        """Number of groups in this process."""
        return self.count // self.group

    @property
    def total(self) -> int:
        """Number of replicas of all instances."""
        return self.count * self.instances

    @property
    def all_groups(self) -> int:
        """Number of groups of all instances."""
        return self.groups * self.instances

    @property
    def first_group(self) -> int:
        """Number of the first group of this process among all."""
        return self.groups * self.instance


def replicas_of(model: ModelAdapter, count: int, group: int) -> Replicas:
    """Returns the replication of a built model; every replica starts in the model's state.

    Args:
        model: The model.
        count: Number of replicas in this process.
        group: Number of replicas that share the statistics of batch norm.
    """
    job = instances()
    places = Replicas(count=count, group=group, instances=job.count, instance=job.index)
    if places.total == 1:
        return places
    state = None
    if places.all_groups > 1:
        later = places.all_groups - places.first_group - places.groups
        state = ReplicaState(model.state_variables, model.seed_states, places.groups, later)
    metrics = ReplicaState(model.metric_variables, (), count) if count > 1 else None
    return dataclasses.replace(places, group_state=state, metrics=metrics)
