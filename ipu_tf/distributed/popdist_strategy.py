"""The strategy of jobs of several instances: one set of replicas over several processes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.config import IPUConfig
from ipu_tf.distributed import host_collectives
from ipu_tf.distributed.shares import share_of
from ipu_tf.feeds import shared_programs
from ipu_tf.internals.tensorflow import read_through, strategy_of
from ipu_tf.ipu_strategy import IPUStrategyV1
from ipu_tf.ops.kernels import replica_context
from ipu_tf.processes.instances import instances
from ipu_tf.processes.job import acts_alone, communicator
from ipu_tf.runtime.execution.executable import python_function
from ipu_tf.strategy.extension import IPUExtendedV1
from ipu_tf.strategy.program_trace import is_keras_step

_SENT = "_ipu_tf_last_initial_value"
"""The attribute of a graph that has the last initial value that instance 0 sends in it."""


class _PopDistExtended(IPUExtendedV1):
    """The methods of the strategy's extension: those that concern the other instances."""

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> tf.Variable:
        """Returns a variable that has the initial value of instance 0 on all instances.

        A variable that a script makes with `synchronization=ON_READ` is reduced over the instances
        whenever the host reads it.
        """
        value, job = kwargs.get("initial_value"), communicator()
        if job is not None and value is not None and not acts_alone():
            name = f"initial value of {kwargs.get('name') or 'a variable'}"

            def of_first_instance() -> Any:
                own = value() if callable(value) else value
                with scopes.on_host("initial_value"):  # The function of a program may make it.
                    own = tf.convert_to_tensor(own, kwargs.get("dtype"))
                    return _in_order(lambda: host_collectives.sent(own, job, 0, name))

            kwargs["initial_value"] = of_first_instance
        variable = super()._create_variable(next_creator, **kwargs)
        on_read = kwargs.get("synchronization") is tf.VariableSynchronization.ON_READ
        if on_read and instances().count > 1 and not _is_made_by_keras():
            read_through(variable, functools.partial(_read_by_host, variable))
        return variable

    def reduced(self, reduce_op: tf.distribute.ReduceOp | str, value: Any) -> Any:
        """Returns the sum or mean over the replicas of a program; on the host, over instances.

        Raises:
            ValueError: The reduction is another.
        """
        result = super().reduced(reduce_op, value)
        if instances().count == 1 or scopes.runs_on_ipu() or replica_context.current() is not None:
            return result
        op = tf.distribute.ReduceOp(reduce_op)
        return tf.nest.map_structure(
            lambda leaf: host_collectives.allreduce(leaf, op, "reduce of a strategy"), value
        )

    def _experimental_distribute_dataset(self, dataset: Any, options: Any) -> Any:
        """Returns the batches of the replicas here, if Keras or a script gives a dataset."""
        data = super()._experimental_distribute_dataset(dataset, options)
        # Without the extensions stock Keras calls this for data that the script has shared out.
        if not strategy_of(self).enable_keras_extensions:
            return data
        return share_of(data, instances()) if isinstance(data, tf.data.Dataset) else data

    def _distribute_datasets_from_function(
        self, dataset_fn: Callable[[tf.distribute.InputContext], Any], options: Any
    ) -> Any:
        """Returns the dataset that a function makes for this instance."""
        del options
        job = instances()
        return dataset_fn(
            tf.distribute.InputContext(
                num_input_pipelines=job.count,
                input_pipeline_id=job.index,
                num_replicas_in_sync=job.total_replicas,
            )
        )

    @property
    def should_checkpoint(self) -> bool:
        """Whether this instance writes checkpoints: instance 0 does."""
        return instances().index == 0

    @property
    def should_save_summary(self) -> bool:
        """Whether this instance writes summaries: instance 0 does."""
        return instances().index == 0

    @property
    def _num_replicas_in_sync(self) -> int:
        return instances().total_replicas


def _in_order(send: Callable[[], tf.Tensor]) -> tf.Tensor:
    """Returns what `send` returns; a session runs it after all earlier ones of the graph."""
    if tf.executing_eagerly() or tf.inside_function():
        return send()
    graph = tf.compat.v1.get_default_graph()
    with tf.control_dependencies(getattr(graph, _SENT, ())):
        result = send()
    setattr(graph, _SENT, (result,))
    return result


def _is_made_by_keras() -> bool:
    """Returns whether Keras itself makes a variable: its loop reduces those of its metrics."""
    frame = inspect.currentframe()
    while frame is not None:
        room = str(frame.f_globals.get("__name__")).partition(".")[0]
        if room not in ("tensorflow", "ipu_tf", "contextlib", "functools"):
            return room in ("keras", "tf_keras")
        frame = frame.f_back
    return False


def _read_by_host(variable: tf.Variable, value: tf.Tensor) -> tf.Tensor:
    """Returns the value that the host reads of a variable: reduced as its aggregation says."""
    if scopes.runs_on_ipu() or replica_context.current() is not None:
        return value
    name = f"variable {variable.name}"
    if variable.aggregation is tf.VariableAggregation.SUM:
        return host_collectives.allreduce(value, tf.distribute.ReduceOp.SUM, name)
    if variable.aggregation is tf.VariableAggregation.MEAN:
        return host_collectives.allreduce(value, tf.distribute.ReduceOp.MEAN, name)
    if variable.aggregation is tf.VariableAggregation.ONLY_FIRST_REPLICA:
        return host_collectives.broadcast(value, tensor_name=name)
    return value


class PopDistStrategy(IPUStrategyV1):
    """An `IPUStrategy` for a job of several instances, whose replicas work together.

    Variables made in its scope begin with the value of instance 0. Collectives of its programs join
    the replicas of all instances. `num_replicas_in_sync` is their number, so Keras divides losses
    by it.

    Args:
        ipu_device: Name of the IPU device, "/device:IPU:<n>".
        add_ipu_cross_replica_reductions: Whether `reduce` and the optimizers of a graph add up over
            the replicas of a program; otherwise the program does, such as by a
            `CrossReplicaOptimizer`.
        enable_dataset_iterators: See `IPUStrategy`.
        enable_keras_extensions: See `IPUStrategy`.

    Raises:
        CollectiveError: Not all instances come.
    """

    joins_instances = True
    extension = _PopDistExtended

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        communicator()
        super().__init__(
            ipu_device,
            enable_dataset_iterators=enable_dataset_iterators,
            enable_keras_extensions=enable_keras_extensions,
        )
        self.extended.reduces_over_replicas = add_ipu_cross_replica_reductions
        self.extended.settings["add_ipu_cross_replica_reductions"] = (
            add_ipu_cross_replica_reductions
        )

    @property
    def supports_loss_scaling(self) -> bool:
        """Always True."""
        return True

    def experimental_run_v2(  # type: ignore[override] # The vendor's signature.
        self,
        fn: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Returns what `run` returns; its name in TensorFlow 2.1."""
        return self.run(fn, args, kwargs)

    def _trace(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls `fn` in the graph that is being built; refuses what would train alone.

        Raises:
            NotImplementedError: `fn` is a model's train step, outside of the model's own loop.
        """
        inner = python_function(fn)
        is_train_step = is_keras_step(inner) and inner.__name__ == "train_step"
        if is_train_step and instances().count > 1 and not shared_programs.are_shared():
            raise NotImplementedError(
                "`strategy.run` of a model's `train_step` updates the weights by the gradients of "
                f"one replica, and {instances().count} instances would differ. Call `fit` of a "
                "model made in the scope of a strategy with `enable_keras_extensions=True`, or run "
                "a function that computes the gradients and applies them with the optimizer, which "
                "sums them over all replicas."
            )
        return super()._trace(fn, args, kwargs)

    def update_ipu_config(self, config: IPUConfig) -> None:
        """Sets the options of a configuration that number the instances."""
        job = instances()
        distribution = config.experimental.multi_replica_distribution
        distribution.process_count = job.count if job.count > 1 else 0
        distribution.process_index = job.index
