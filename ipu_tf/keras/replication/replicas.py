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
        count: Number of replicas that this process runs.
        group: Number of replicas that share the statistics of batch norm. A group runs as one
            batch, and its replicas share the states of batch norm and of random generators.
        instances: Number of instances of the job, which have equally many replicas. Those that run
            the same replicas count once.
        instance: Number of this instance.
        span: Number of instances that share a group. Each of them runs all replicas of the group.
        place: Number of this instance among those.
        group_state: The state that each group keeps, None with a single group.
        metrics: The state of metrics of each replica, None with a single replica.
        own: The replication in evaluation and prediction, where an instance runs its own replicas
            alone; None where it is this one.
    """

    count: int = 1
    group: int = 1
    instances: int = 1
    instance: int = 0
    span: int = 1
    place: int = 0
    group_state: ReplicaState | None = None
    metrics: ReplicaState | None = None
    own: Replicas | None = None

    @property
    def local(self) -> int:
        """Number of replicas that the job gave this process."""
        return self.count // self.span

    @property
    def first_local(self) -> int:
        """Number of the first of these among the replicas that it runs."""
        return self.place * self.local

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
    job, span = instances(), max(1, group // count)
    places = Replicas(
        count=count * span,
        group=group,
        instances=job.count // span,
        instance=job.index // span,
        span=span,
        place=job.index % span,
    )
    if places.total == 1:
        return places
    state = None
    if places.all_groups > 1:
        later = places.all_groups - places.first_group - places.groups
        state = ReplicaState(model.state_variables, model.seed_states, places.groups, later)
    own = None
    if span > 1:
        own = dataclasses.replace(
            places, count=count, span=1, group_state=state, metrics=_metrics(model, count)
        )
    metrics = _metrics(model, places.count)
    return dataclasses.replace(places, group_state=state, metrics=metrics, own=own)


def _metrics(model: ModelAdapter, count: int) -> ReplicaState | None:
    return ReplicaState(model.metric_variables, (), count) if count > 1 else None
