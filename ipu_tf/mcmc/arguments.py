"""Checks of what `sample_chain` is called with."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.mcmc.kernel_results import find
from ipu_tf.processes.instances import instances
from ipu_tf.strategy import IPUStrategyV1


def strategy_in_force(num_replicas: int | None) -> IPUStrategyV1:
    """Returns the strategy whose scope is open.

    Raises:
        ValueError: There is none, or its device has another number of replicas.
    """
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, IPUStrategyV1):
        raise ValueError(
            "`ipu_tf.mcmc.sample_chain` runs in the scope of an IPUStrategy. "
            f"Call it in `with strategy.scope():`. Received: {type(strategy).__name__}."
        )
    replicas = replicas_of_job(strategy)
    if num_replicas is not None and num_replicas != replicas:
        owner = "device" if instances().count == 1 else "job"
        raise ValueError(
            f"The {owner} has {replicas} replicas. Received: "
            f"num_replicas={num_replicas!r}. Set `auto_select_ipus` of the configuration to it."
        )
    return strategy


def replicas_of_job(strategy: IPUStrategyV1) -> int:
    """Returns the number of replicas of all instances, each of which has equally many."""
    return strategy.num_replicas * instances().count


def check_positive(**arguments: object) -> None:
    """Raises ValueError if an argument is no positive integer."""
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"`{name}` has to be a positive integer. Received: {name}={value!r}.")


def check_start(results: TensorStructure) -> None:
    """Raises ValueError if a chain could never leave its first state."""
    log_density = find(results, "target_log_prob")
    if log_density is None:
        return
    chains = np.argwhere(np.isnan(np.asarray(log_density)))
    if len(chains):
        first = ", ".join(str(index[0] if len(index) == 1 else index) for index in chains.tolist())
        which = f" in chains {first}" if chains.size else ""
        raise ValueError(
            f"The log-density of `current_state` is NaN{which}: a sampler accepts no step from "
            "there. Start where the density has a value, and check its logarithms, roots and "
            "quotients."
        )
