"""The strategy of jobs of several processes, for a job of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ipu_tf.config import IPUConfig
from ipu_tf.ipu_strategy import IPUStrategyV1


class PopDistStrategy(IPUStrategyV1):
    """An `IPUStrategy` for scripts that are written for several processes.

    There is one process. It drives all IPUs of its device; Keras models add up the gradients of
    their replicas in any case.

    Args:
        ipu_device: Name of the IPU device, "/device:IPU:<n>".
        add_ipu_cross_replica_reductions: Whether `reduce` and the optimizers of a graph add up over
            the replicas of a program; otherwise the program does, such as by a
            `CrossReplicaOptimizer`.
        enable_dataset_iterators: See `IPUStrategy`.
        enable_keras_extensions: See `IPUStrategy`.
    """

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        super().__init__(
            ipu_device,
            enable_dataset_iterators=enable_dataset_iterators,
            enable_keras_extensions=enable_keras_extensions,
        )
        self.extended.reduces_over_replicas = add_ipu_cross_replica_reductions
        self.extended.settings["add_ipu_cross_replica_reductions"] = (
            add_ipu_cross_replica_reductions
        )

    def experimental_run_v2(  # type: ignore[override] # The vendor's signature.
        self,
        fn: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Returns what `run` returns; its name in TensorFlow 2.1."""
        return self.run(fn, args, kwargs)

    def update_ipu_config(self, config: IPUConfig) -> None:
        """Sets the options of a configuration that number the processes: there is only this one."""
        distribution = config.experimental.multi_replica_distribution
        distribution.process_count = 0
        distribution.process_index = 0
