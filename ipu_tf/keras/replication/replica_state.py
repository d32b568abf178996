"""Replicas: their number, and the state that each of them keeps.

The replicas of a process share one copy of the trainable weights, which are the same on all of
them. Values that may differ (statistics of batch norm, states of random generators, metrics) are
kept for each replica, and are in the model's own variables while a replica runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from ipu_tf import utils
from ipu_tf.processes.instances import instances

_SEED_STRIDE = 0x9E3779B9  # The golden ratio of 2**32: neighbouring replicas get distant seeds.


def replication_factor(strategy: tf.distribute.Strategy, stages: int = 1) -> int:
    """Returns the number of replicas of a model that fit on the IPUs of a strategy's device.

    Args:
        strategy: An IPU strategy.
        stages: IPUs that one replica needs. A replica takes a power of two of them.

    Raises:
        ValueError: One replica needs more IPUs than there are.
    """
    ipus = utils.get_num_of_ipus_in_device(strategy.extended.worker_devices[0])
    power = 1 << math.ceil(math.log2(stages))
    if power > ipus:
        raise ValueError(
            f"Current device has {ipus} IPUs attached, however the current model requires a "
            f"multiple of {power} IPUs. Set `auto_select_ipus` of the configuration to {power} "
            "or a multiple of it, or use fewer pipeline stages."
        )
    return ipus // power


def check_shares(replicas: int) -> None:
    """Checks that this instance has the replicas that poprun gave it.

    Raises:
        ValueError: The device has IPUs for more or fewer.
    """
    job = instances()
    if job.count > 1 and replicas != job.local_replicas:
        raise ValueError(
            f"The device of instance {job.index} runs {replicas} replicas of the model, but poprun "
            f"gave it {job.local_replicas}. Configure the device by popdist.tensorflow."
            "set_ipu_config(config, ipus_per_replica), and start poprun with the same "
            "--ipus-per-replica."
        )


def check_group(replicas: int, group: int) -> None:
    """Checks that replicas divide into groups for batch-norm statistics.

    Args:
        replicas: Replicas of this instance.
        group: Replicas of a group.

    Raises:
        ValueError: `group` does not divide the number of replicas, or cuts through an instance.
    """
    total = replicas * instances().count
    if total % group:
        raise ValueError(
            "`norms.experimental.distributed_batch_norm_replica_group_size` must divide the "
            f"number of replicas. Received: {group}, with {total} replicas."
        )
    if replicas % group and group % replicas:
        raise ValueError(
            "`norms.experimental.distributed_batch_norm_replica_group_size` must be a divisor or a "
            f"multiple of the replicas of an instance. Received: {group}, with {replicas} of "
            f"{total} replicas in each instance. Start another number of instances."
        )


class ReplicaState:
    """The values that variables have on each of several replicas.

    Args:
        variables: The variables. They hold the values of the last replica between runs.
        seeds: The variables among them that are states of random generators; each replica's starts
            at a different value.
        copies: Number of replicas, or of groups of replicas that share a state.
        later: How many come after these, in other instances.
    """

    def __init__(
        self,
        variables: Sequence[tf.Variable],
        seeds: Sequence[tf.Variable],
        copies: int,
        later: int = 0,
    ) -> None:
        seed_ids = {id(variable) for variable in seeds}
        self._copies, self._later = copies, later
        self._variables = list(variables)
        self._is_seed = [id(variable) in seed_ids for variable in self._variables]
        self._values = [
            tf.Variable(self._spread(variable, is_seed), trainable=False, name="replica_state")
            for variable, is_seed in zip(self._variables, self._is_seed, strict=True)
        ]

    def broadcast(self) -> None:
        """Gives every replica the current values of the variables."""
        for variable, values, is_seed in self._all():
            values.assign(self._spread(variable, is_seed))

    def broadcast_changes(self) -> None:
        """Gives every replica the values of those variables that were changed from outside."""
        for variable, values, is_seed in self._all():
            differences = _differ(tf.convert_to_tensor(variable), self._last(values, is_seed))
            values.assign(tf.where(differences, self._spread(variable, is_seed), values))

    def load(self, replica: tf.Tensor) -> None:
        """Sets the variables to the values of a replica, an int32 scalar."""
        for variable, values, _ in self._all():
            variable.assign(tf.gather(values, replica))

    def store(self, replica: tf.Tensor) -> None:
        """Keeps the values of the variables as those of a replica, an int32 scalar."""
        for variable, values, _ in self._all():
            values.scatter_update(tf.IndexedSlices(variable[tf.newaxis], replica[tf.newaxis]))

    def leave(self) -> None:
        """Sets random states to those of the last replica of all instances, for files."""
        for variable, values, is_seed in self._all():
            if is_seed and self._later:
                variable.assign(self._last(values, is_seed))

    def _all(self) -> zip[tuple[tf.Variable, tf.Variable, bool]]:
        return zip(self._variables, self._values, self._is_seed, strict=True)

    def _spread(self, variable: tf.Variable, is_seed: bool) -> tf.Tensor:
        copies = tf.repeat(variable[tf.newaxis], self._copies, axis=0)
        if not is_seed:
            return copies
        # The last replica continues with the model's own seed, as with all other values.
        offsets = [self._offset(copies, copy) for copy in range(self._copies)]
        return copies + tf.stack(offsets)

    def _last(self, values: tf.Tensor, is_seed: bool) -> tf.Tensor:
        """Returns the values of the last replica here; random states of the last one of all."""
        last = values[self._copies - 1]
        return last - self._offset(values, self._copies - 1) if is_seed and self._later else last

    def _offset(self, values: tf.Tensor, copy: int) -> tf.Tensor:
        """Returns what sets the random state of a replica apart from that of the last one."""
        apart = (self._copies + self._later - 1 - copy) * _SEED_STRIDE % 2**32
        first = tf.one_hot(0, values.shape[-1], dtype=values.dtype)  # A state is (seed, counter).
        return tf.constant(apart, values.dtype) * first


def _differ(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    different = tf.not_equal(a, b)
    if a.dtype.is_floating:
        different &= ~(tf.math.is_nan(a) & tf.math.is_nan(b))
    return tf.reduce_any(different)
