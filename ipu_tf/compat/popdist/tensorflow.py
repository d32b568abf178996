"""`popdist.tensorflow`: the configuration of an instance."""

from __future__ import annotations

from ipu_tf.config import IPUConfig
from ipu_tf.processes.instances import instances


def set_ipu_config(
    config: IPUConfig, ipus_per_replica: int = 1, configure_device: bool = True
) -> IPUConfig:
    """Returns the configuration, with the options of this instance.

    Args:
        config: The configuration, changed in place. Install it afterwards.
        ipus_per_replica: The IPUs of a replica.
        configure_device: Whether the device is chosen, too: one with the IPUs of the replicas of
            this instance.

    Raises:
        ValueError: poprun was told another number of IPUs for a replica.
    """
    job = instances()
    if job.is_launched and ipus_per_replica != job.ipus_per_replica:
        raise ValueError(
            "set_ipu_config: `ipus_per_replica` must be the --ipus-per-replica of poprun, which is "
            f"{job.ipus_per_replica}. Received: {ipus_per_replica!r}."
        )
    distribution = config.experimental.multi_replica_distribution
    distribution.process_count = job.count if job.count > 1 else 0
    distribution.process_index = job.index
    if configure_device:
        config.auto_select_ipus = job.local_replicas * ipus_per_replica
    return config
