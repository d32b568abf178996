"""The strategy of a cluster of workers, for a cluster of one."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.ipu_strategy import IPUStrategyV1

__all__ = ["IPUMultiWorkerStrategy", "IPUMultiWorkerStrategyV1"]


class IPUMultiWorkerStrategyV1(IPUStrategyV1):
    """An `IPUStrategy` for scripts that are written for several workers.

    There is one worker: it drives all IPUs of its device, whose replicas share the work of several.

    Args:
        cluster_resolver: Describes the cluster.
        ipu_device: Name of the IPU device, "/device:IPU:<n>".
        variables_on_host: Whether variables are in the memory of the host; accepted without effect,
            for programs get the values from there in any case.

    Raises:
        NotImplementedError: The cluster has several workers.
        TypeError: `cluster_resolver` is no `tf.distribute.cluster_resolver.ClusterResolver`.
    """

    def __init__(
        self,
        cluster_resolver: tf.distribute.cluster_resolver.ClusterResolver,
        ipu_device: str = "/device:IPU:0",
        variables_on_host: bool = False,
    ) -> None:
        del variables_on_host
        if not isinstance(cluster_resolver, tf.distribute.cluster_resolver.ClusterResolver):
            raise TypeError(
                "IPUMultiWorkerStrategy: `cluster_resolver` must be a tf.distribute."
                f"cluster_resolver.ClusterResolver. Received: {cluster_resolver!r}."
            )
        workers = _workers(cluster_resolver)
        if len(workers) > 1:
            raise NotImplementedError(
                f"IPUMultiWorkerStrategy: the cluster has {len(workers)} workers, and this process "
                "would be one of them. Several processes are not simulated. Describe a cluster of "
                "one, or use IPUStrategy, and give the device the IPUs of all workers by "
                f"`IPUConfig.auto_select_ipus`. Received: {', '.join(workers)}."
            )
        super().__init__(ipu_device)


IPUMultiWorkerStrategy = IPUMultiWorkerStrategyV1


def _workers(cluster_resolver: tf.distribute.cluster_resolver.ClusterResolver) -> list[str]:
    """Returns the addresses of the tasks that train."""
    cluster = cluster_resolver.cluster_spec().as_dict()
    return [address for job in ("chief", "master", "worker") for address in cluster.get(job, [])]
