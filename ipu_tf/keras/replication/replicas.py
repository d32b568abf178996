"""The program that a model runs on the device in a step, and the model's replication.

The steps of evaluation and prediction, and that of training without accumulation and replicas,
are methods of the model: those of `scoped_steps`, or of the user's class (`own_steps`).
`training_steps` has the other steps of training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.keras.replication.replica_state import ReplicaState, seed_states

Step = Callable[..., Any]
"""A batch of data to the logs of a step, or to the predictions."""


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


def replicas_of(model: keras.Model, count: int, group: int) -> Replicas:
    """Returns the replication of a built model; every replica starts in the model's state.

    Args:
        model: The model.
        count: Number of replicas.
        group: Number of replicas that share the statistics of batch norm.
    """
    if count == 1:
        return Replicas()
    metrics = [variable.value for variable in model.metrics_variables]
    metric_ids = {id(variable) for variable in metrics}
    state = [
        variable.value
        for variable in model.non_trainable_variables
        if id(variable.value) not in metric_ids
    ]
    groups = count // group
    return Replicas(
        count=count,
        group=group,
        group_state=ReplicaState(state, seed_states(model), groups) if groups > 1 else None,
        metrics=ReplicaState(metrics, (), count),
    )


def run_with(strategy: tf.distribute.Strategy, step: Step) -> Step:
    """Returns a function that runs `step` on a batch as a program of the device."""

    @tf.autograph.experimental.do_not_convert
    def run_step(batch: Any) -> Any:
        return strategy.run(step, args=(batch,))

    return run_step
