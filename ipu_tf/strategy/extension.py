"""The extension of the strategy: what tf.distribute asks of one IPU system."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import UpdateContext, strategy_of, strategy_of_variable
from ipu_tf.ops import cross_replica_ops
from ipu_tf.ops.kernels import replica_context
from ipu_tf.strategy.infeed_iterator import read_by_host
from ipu_tf.strategy.open_scope import are_one, in_force


class IPUExtendedV1(tf.compat.v1.distribute.StrategyExtended):
    """The methods of a distribution strategy's extension, for one IPU system.

    Args:
        container_strategy: The strategy that this extends.
        ipu_device: Name of the IPU device.
        cpu_device: Device of variables.

    Attributes:
        reduces_over_replicas: Whether reductions, such as those of optimizers, are over the
            replicas of a program; otherwise a program calls collectives itself.
        settings: The arguments of the strategy that set it apart from others.
    """

    reduces_over_replicas = True

    def __init__(
        self, container_strategy: tf.distribute.Strategy, ipu_device: str, cpu_device: str
    ) -> None:
        super().__init__(container_strategy)
        self._ipu_device = ipu_device
        self._cpu_device = cpu_device
        self.settings: dict[str, Any] = {"ipu_device": ipu_device, "cpu_device": cpu_device}

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> tf.Variable:
        kwargs.pop("colocate_with", None)
        with tf.device(self._cpu_device):
            return next_creator(**kwargs)

    def colocate_vars_with(
        self, colocate_with_variable: tf.Variable
    ) -> contextlib.AbstractContextManager[object]:
        """Returns a context that makes variables beside another: all are on the host."""
        if in_force(strategy_of(self)) is not strategy_of(self):
            return contextlib.nullcontext()  # The open scope is one with this strategy's.
        context: contextlib.AbstractContextManager[Any]
        context = super().colocate_vars_with(colocate_with_variable)
        return context

    def variable_created_in_scope(self, v: tf.Variable) -> bool:
        """Returns whether a variable was made under this strategy, or one that is one with it."""
        made_under = strategy_of_variable(v)
        return made_under is not None and are_one(made_under, strategy_of(self))

    def _call_for_each_replica(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        with _IPUReplicaContext(strategy_of(self), replica_id_in_sync_group=0):
            return fn(*args, **kwargs)

    def _update(
        self,
        var: Any,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        group: bool,
    ) -> Any:
        return self._update_non_slot(var, fn, (var, *args), kwargs, group)

    def _update_non_slot(
        self,
        colocate_with: Any,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        group: bool,
    ) -> Any:
        del colocate_with
        with UpdateContext(self._cpu_device):
            result = fn(*args, **kwargs)
        return result if group else tf.nest.map_structure(self._local_results, result)

    def _reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any) -> Any:
        del destinations, options
        return self.reduced(reduce_op, value)

    def reduced(self, reduce_op: tf.distribute.ReduceOp | str, value: tf.Tensor) -> tf.Tensor:
        """Returns the sum or mean of a structure of tensors over the replicas of the program.

        Raises:
            ValueError: The reduction is another.
        """
        if reduce_op not in (tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN):
            raise ValueError(
                f"Unsupported reduce op. Use SUM or MEAN. Received: reduce_op={reduce_op!r}."
            )
        if replica_context.num_replicas() == 1 or not self.reduces_over_replicas:
            return value  # The only replica's is its own sum and its own mean.
        is_sum = reduce_op is tf.distribute.ReduceOp.SUM
        combine = (
            cross_replica_ops.cross_replica_sum if is_sum else cross_replica_ops.cross_replica_mean
        )
        # Rows of a sparse gradient differ between replicas, so they are summed where they belong.
        return tf.nest.map_structure(lambda leaf: combine(tf.convert_to_tensor(leaf)), value)

    def _gather_to_implementation(
        self, value: Any, destinations: Any, axis: int, options: Any
    ) -> Any:
        del destinations, axis, options
        return value

    def _broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        del destinations
        return tensor

    def _experimental_distribute_dataset(self, dataset: tf.data.Dataset, options: Any) -> Any:
        # A wrapped dataset would lose its static batch size.
        del options
        if strategy_of(self).enable_keras_extensions:
            return dataset
        # The loop of stock Keras reads the first batch on the host.
        return read_by_host(dataset)

    def _distribute_datasets_from_function(
        self, dataset_fn: Callable[..., tf.data.Dataset], options: Any
    ) -> tf.data.Dataset:
        del options
        return dataset_fn(tf.distribute.InputContext())

    def _experimental_distribute_values_from_function(self, value_fn: Callable[..., Any]) -> Any:
        return value_fn(tf.distribute.experimental.ValueContext())

    def _local_results(self, value: Any) -> tuple[Any, ...]:
        return (value,)

    def _use_merge_call(self) -> bool:
        return False

    def _in_multi_worker_mode(self) -> bool:
        return False

    def _get_local_replica_id(self, replica_id_in_sync_group: int) -> int:
        return replica_id_in_sync_group

    def value_container(self, value: tf.Tensor) -> object:
        """Returns the value itself: nothing is distributed."""
        return value

    def non_slot_devices(self, var_list: Sequence[tf.Variable]) -> tuple[str, ...]:
        """Returns the device of variables that are not slots."""
        del var_list
        return (self._cpu_device,)

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The device that computes."""
        return (self._ipu_device,)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The device that holds variables."""
        return (self._cpu_device,)

    @property
    def _num_replicas_in_sync(self) -> int:
        return 1

    @property
    def experimental_require_static_shapes(self) -> bool:
        """Always True: the IPU has no dynamic shapes."""
        return True

    @property
    def experimental_should_init(self) -> bool:
        """Always True: one process initialises."""
        return True

    @property
    def experimental_between_graph(self) -> bool:
        """Always False: there is one graph."""
        return False

    @property
    def should_checkpoint(self) -> bool:
        """Always True: one process writes checkpoints."""
        return True

    @property
    def should_save_summary(self) -> bool:
        """Always True: one process writes summaries."""
        return True

    @property
    def _global_batch_size(self) -> bool:
        return True

    @property
    def _support_per_replica_values(self) -> bool:
        return False


class _IPUReplicaContext(tf.distribute.ReplicaContext):
    """The context in which a function of `run` is traced."""

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Returns the sum or mean of values over the replicas.

        TensorFlow's own registers a gradient function for as long as the process lives, and with it
        this context, its strategy and their models; the collectives have gradients of their own.

        Args:
            reduce_op: A `tf.distribute.ReduceOp` or its name: "SUM" or "MEAN".
            value: A structure of tensors.
            options: Has no effect.
        """
        if isinstance(reduce_op, str):
            reduce_op = tf.distribute.ReduceOp(reduce_op.upper())
        del options
        extended: IPUExtendedV1 = self.strategy.extended
        return extended.reduced(reduce_op, value)

    @property
    def devices(self) -> tuple[str, ...]:
        return self.strategy.extended.worker_devices
