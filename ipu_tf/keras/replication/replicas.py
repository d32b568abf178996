"""The replication of a model: the number of replicas, their groups, and the state of each."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.keras.adapters.models import ModelAdapter
from ipu_tf.keras.replication.replica_state import ReplicaState


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The replication of a model.

    Attributes:
        count: Number of replicas.
        group: Number of replicas that share the statistics of batch norm. A group runs as one
            batch, and its replicas share the states of batch norm and of random generators.
        group_state: The state that each group keeps, None with a single group.
        metrics: The state of metrics of each replica, None with a single replica.
    """

    count: int = 1
    group: int = 1
    group_state: ReplicaState | None = None
    metrics: ReplicaState | None = None

    @property
    def groups(self) -> int:
        """Number of groups."""
        return self.count // self.group


def replicas_of(model: ModelAdapter, count: int, group: int) -> Replicas:
    """Returns the replication of a built model; every replica starts in the model's state.

    Args:
        model: The model.
        count: Number of replicas.
        group: Number of replicas that share the statistics of batch norm.
    """
    if count == 1:
        return Replicas()
    groups = count // group
    state = ReplicaState(model.state_variables, model.seed_states, groups) if groups > 1 else None
    return Replicas(
        count=count,
        group=group,
        group_state=state,
        metrics=ReplicaState(model.metric_variables, (), count),
    )
