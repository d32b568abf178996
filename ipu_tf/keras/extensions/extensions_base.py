"""The IPU's additional methods of Keras models made in the scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from ipu_tf.keras.data.lengths import positive_integer
from ipu_tf.keras.options import (
    GradientAccumulationOptions,
    InfeedOptions,
    OutfeedOptions,
    ReplicatedMetricReductionMethod,
    ReplicationOptions,
)

__all__ = ["IPUExtensions", "ReplicatedMetricReductionMethod"]


class IPUExtensions(keras.Model):
    """Options of the training loop; each is a frozen value that its setter replaces.

    A change of an option drops the model's functions, which are made again when needed.
    """

    train_function: Callable[[Any], Any] | None
    test_function: Callable[[Any], Any] | None
    predict_function: Callable[[list[Any]], Any] | None
    _steps_per_execution = 1
    _gradient_accumulation_options = GradientAccumulationOptions()
    _replication_options = ReplicationOptions()
    _infeed_options = InfeedOptions()
    _outfeed_options = OutfeedOptions()
    _asynchronous_callbacks = False

    @property
    def steps_per_execution(self) -> int:
        """Steps that one call of the device runs; `compile` sets them.

        Raises:
            ValueError: They are set to anything but a positive integer.
        """
        return self._steps_per_execution

    @steps_per_execution.setter
    def steps_per_execution(self, steps: Any) -> None:
        self._steps_per_execution = positive_integer(
            steps, f"`compile` of a {type(self).__name__} model: `steps_per_execution`"
        )

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        gradient_accumulation_reduction_method: Any = "sum",
        use_v2_gradient_accumulation_optimizer: bool = False,
        **gradient_accumulation_optimizer_kwargs: Any,
    ) -> None:
        """Sets how many micro-batches make one weight update of `fit`.

        `steps_per_execution` must be a multiple of their number. With the default method the
        gradients are summed: an update is that many times larger than for the mean.

        Args:
            gradient_accumulation_steps_per_replica: Micro-batches of one update on each replica;
                None switches accumulation off.
            gradient_accumulation_reduction_method: A `GradientAccumulationReductionMethod` or
                its name: "sum", "mean" or "running_mean".
            use_v2_gradient_accumulation_optimizer: Accepted for compatibility: there is one way
                to accumulate, and any Keras optimizer works with it.
            **gradient_accumulation_optimizer_kwargs: `dtype` of the accumulators, and where the
                optimizer state lies; see `GradientAccumulationOptions`.

        Raises:
            TypeError: There is no such keyword argument.
            ValueError: An argument is out of its range, or belongs to another method.
        """
        del use_v2_gradient_accumulation_optimizer
        self._gradient_accumulation_options = GradientAccumulationOptions.of(
            gradient_accumulation_steps_per_replica,
            gradient_accumulation_reduction_method,
            gradient_accumulation_optimizer_kwargs,
        )
        self._drop_functions()

    def set_replication_options(self, replicated_metric_reduction_method: Any = "NONE") -> None:
        """Sets how the logs combine the values of several replicas.

        Args:
            replicated_metric_reduction_method: A `ReplicatedMetricReductionMethod` or its name:
                "NONE" (the value of the last replica), "LIST", "SUM" or "MEAN".

        Raises:
            ValueError: There is no such method.
        """
        method = ReplicatedMetricReductionMethod.parse(replicated_metric_reduction_method)
        self._replication_options = ReplicationOptions(metric_reduction=method)
        self._drop_functions()

    def set_asynchronous_callbacks(self, asynchronous: bool = False) -> None:
        """Sets whether callbacks are called once a step instead of once an execution.

        Callbacks then run on a separate thread while the device runs on, for each step and
        replica; once a step if the metrics of replicas are reduced, except in `predict`. They see
        the weights of the step that the device has reached.

        Args:
            asynchronous: True for once a step.

        Raises:
            TypeError: It is not a bool.
        """
        if not isinstance(asynchronous, bool):
            raise TypeError(f"`asynchronous` must be True or False. Received: {asynchronous!r}.")
        self._asynchronous_callbacks = asynchronous
        self._drop_functions()

    def set_infeed_queue_options(self, **kwargs: Any) -> None:
        """Sets the options of the transfer of data to the device.

        Args:
            **kwargs: `prefetch_depth`, batches that are prepared ahead (default 3);
                `device_ordinal` and `optimise_latency` are accepted.

        Raises:
            TypeError: There is no such option.
            ValueError: An option is out of its range, or Keras itself sets it.
        """
        self._infeed_options = InfeedOptions.of(kwargs)
        self._drop_functions()

    def set_outfeed_queue_options(self, **kwargs: Any) -> None:
        """Sets the options of the transfer of results from the device.

        Args:
            **kwargs: `buffer_depth` and `optimise_latency`; neither changes the results.

        Raises:
            TypeError: There is no such option.
            ValueError: An option is out of its range, or Keras itself sets it.
        """
        self._outfeed_options = OutfeedOptions.of(kwargs)
        self._drop_functions()

    def _drop_functions(self) -> None:
        """Drops the functions of the training loop; they are made again when needed."""
        self.train_function = self.test_function = self.predict_function = None
