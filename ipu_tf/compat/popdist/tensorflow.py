"""`popdist.tensorflow` for one process."""

from __future__ import annotations

from ipu_tf.config import IPUConfig


def set_ipu_config(
    config: IPUConfig, ipus_per_replica: int = 1, configure_device: bool = True
) -> IPUConfig:
    """Returns the configuration, with the options of a process with one replica, the only process.

    Args:
        config: The configuration, changed in place. Install it afterwards.
        ipus_per_replica: The IPUs of a replica.
        configure_device: Whether the device is chosen, too: one of `ipus_per_replica` IPUs.
    """
    config.experimental.multi_replica_distribution.process_count = 0
    config.experimental.multi_replica_distribution.process_index = 0
    if configure_device:
        config.auto_select_ipus = ipus_per_replica
    return config
