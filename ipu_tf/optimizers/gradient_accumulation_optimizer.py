"""Optimizers that apply the gradients of several iterations of a loop at once."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_tf.internals.graphs import is_in_loop_body
from ipu_tf.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from ipu_tf.optimizers.ipu_optimizer import GradientsAndVariables, IpuOptimizer
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.gradient_sums import in_optimizer_type

_V1 = tf.compat.v1.train


class GradientAccumulationOptimizerV2(IpuOptimizer):
    """Reduces the gradients of `num_mini_batches` iterations, then applies them.

    It has to be applied in a loop, such as the body of `loops.repeat`. If the iterations of the
    loop are not a multiple of `num_mini_batches`, the last gradients are not applied by it: the
    next run of the loop goes on with them.

    Args:
        opt: The `tf.compat.v1.train.Optimizer` that takes the reduced gradients.
        num_mini_batches: Iterations of one update; at least 1.
        offload_weight_update_variables: Whether the device keeps the data that only updates need
            in remote memory; the numbers stay the same. Has no effect here.
        replicated_optimizer_state_sharding: Whether replicas share out that data; the numbers
            stay the same. Has no effect here.
        dtype: Type of the sums: a type, a function from the variable to one, or None for the type
            of the variable.
        reduction_method: A `GradientAccumulationReductionMethod` or its name.
        name: Name of the optimizer.

    Raises:
        TypeError: `opt` is another kind of optimizer.
        ValueError: `num_mini_batches` is less than 1, or the method is unknown.
    """

    def __init__(
        self,
        opt: tf.compat.v1.train.Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: tf.DType | str | None = None,
        reduction_method: GradientAccumulationReductionMethod
        | str = GradientAccumulationReductionMethod.SUM,
        name: str = "GradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(opt, name)
        del offload_weight_update_variables, replicated_optimizer_state_sharding
        if isinstance(num_mini_batches, bool) or not (
            isinstance(num_mini_batches, int) and num_mini_batches >= 1
        ):
            raise ValueError(
                "num_mini_batches must be a positive integer. "
                f"Received: num_mini_batches={num_mini_batches!r}."
            )
        self._count = num_mini_batches
        self._dtype = dtype
        self._method = GradientAccumulationReductionMethod.parse(reduction_method)
        self._step: tf.Variable | None = None
        self._sums: dict[Any, tf.Variable] = {}

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Returns an operation that adds gradients to the sums, and at last applies the sums.

        Raises:
            ValueError: It is not in the body of a loop.
        """
        pairs = [(grad, var) for grad, var in grads_and_vars if grad is not None]
        if self._count == 1:
            return super().apply_gradients(pairs, global_step, name)
        if not is_in_loop_body(tf.compat.v1.get_default_graph()):
            raise ValueError(
                "No gradient accumulation count instruction found: "
                f"{self.get_name()} applies the gradients of {self._count} iterations, so it has "
                "to be applied in the body of `loops.repeat`."
            )
        step = self._make_variables([var for _, var in pairs])
        number = step.read_value()
        sums = [(self._add(grad, var, number), var) for grad, var in pairs]
        is_last = tf.equal(number, self._count - 1)

        def update() -> tf.Tensor:
            gradients = [(total.read_value(), var) for total, var in sums]
            cast = [(in_optimizer_type(total, var, self.wrapped), var) for total, var in gradients]
            applied = super(GradientAccumulationOptimizerV2, self).apply_gradients(
                cast, global_step, name
            )
            self._note_state([var for _, var in pairs], step)
            with tf.control_dependencies([applied]):
                resets = [total.assign(tf.zeros_like(total)) for total, _ in sums]
                resets.append(step.assign(0))
            with tf.control_dependencies(resets):
                return tf.constant(True)

        def wait() -> tf.Tensor:
            with tf.control_dependencies([step.assign(number + 1)]):
                return tf.constant(False)

        return tf.group(tf.cond(is_last, update, wait))

    def _make_variables(self, variables: list[Any]) -> tf.Variable:
        """Makes the sums of variables that have none yet, and returns the number of iterations."""
        with tf.init_scope(), tf.device(None):  # A session has no device of an IPU's name.
            if self._step is None:
                self._step = tf.Variable(0, trainable=False, name="accumulated_mini_batches")
            for variable in variables:
                if variable.ref() not in self._sums:
                    self._sums[variable.ref()] = tf.Variable(
                        tf.zeros(variable.shape, _type_of(variable, self._dtype)),
                        trainable=False,
                        name=f"{variable.name.rpartition(':')[0]}_gradient_accumulator",
                    )
        return self._step

    def _note_state(self, variables: list[Any], step: tf.Variable) -> None:
        """Says to the program that is being traced which variables the update keeps."""
        tracer = hooks.active()
        if tracer is None:
            return
        tracer.steps_of_update = max(tracer.steps_of_update, self._count)
        for variable in variables:
            tracer.note_slot(self._sums[variable.ref()], variable)
        with tf.init_scope():  # An optimizer tells the variables of the present graph alone.
            counters = [step, *self.variables()]
        for counter in counters:
            tracer.note_slot(counter, counter)

    def _add(self, gradient: Any, variable: Any, number: tf.Tensor) -> tf.Variable:
        """Adds a gradient to its sum, which it returns."""
        total = self._sums[variable.ref()]
        gradient = tf.cast(tf.convert_to_tensor(gradient), total.dtype)
        if self._method is GradientAccumulationReductionMethod.MEAN:
            gradient *= tf.constant(1 / self._count, total.dtype)
        elif self._method is GradientAccumulationReductionMethod.RUNNING_MEAN:
            count = tf.cast(number, tf.float32)
            weight = 1.0 / (count + 1.0)
            total.assign(total * tf.cast(count * weight, total.dtype))
            gradient *= tf.cast(weight, total.dtype)
        total.assign_add(gradient)
        return total


class GradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """Adds up the gradients of `num_mini_batches` iterations, then applies them.

    Args:
        opt: A gradient descent or momentum optimizer of TensorFlow 1.
        num_mini_batches: Iterations of one update; at least 1.
        verify_usage: Has no effect here: the usage is always verified.
        name: Name of the optimizer.

    Raises:
        TypeError: `opt` is not an optimizer of TensorFlow 1.
        ValueError: It is another one, or `num_mini_batches` is less than 1.
    """

    def __init__(
        self,
        opt: tf.compat.v1.train.Optimizer,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        del verify_usage
        super().__init__(opt, num_mini_batches, name=name)
        inner: Any = opt
        while isinstance(inner, IpuOptimizer):
            inner = inner.wrapped
        if not isinstance(inner, _V1.GradientDescentOptimizer | _V1.MomentumOptimizer):
            raise ValueError(
                "GradientAccumulationOptimizer only supports GradientDescentOptimizer and "
                "MomentumOptimizer. Use GradientAccumulationOptimizerV2. "
                f"Received: opt={type(inner).__name__}."
            )


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """Applies the means over the replicas of gradients reduced as by the class without the prefix.

    Args:
        opt: As of `GradientAccumulationOptimizerV2`, and so all others.
        num_mini_batches: Iterations of one update; at least 1.
        offload_weight_update_variables: Has no effect here.
        replicated_optimizer_state_sharding: Has no effect here.
        dtype: Type of the sums.
        reduction_method: How the gradients of a replica are reduced.
        name: Name of the optimizer.
    """

    def __init__(
        self,
        opt: tf.compat.v1.train.Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: tf.DType | str | None = None,
        reduction_method: GradientAccumulationReductionMethod
        | str = GradientAccumulationReductionMethod.SUM,
        name: str = "CrossReplicaGradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(
            CrossReplicaOptimizer(opt),
            num_mini_batches,
            offload_weight_update_variables,
            replicated_optimizer_state_sharding,
            dtype,
            reduction_method,
            name,
        )


class CrossReplicaGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """Applies the means over the replicas of gradients summed as by the class without the prefix.

    Args:
        opt: A gradient descent or momentum optimizer of TensorFlow 1.
        num_mini_batches: Iterations of one update; at least 1.
        verify_usage: Has no effect here.
        name: Name of the optimizer.
    """

    def __init__(
        self,
        opt: tf.compat.v1.train.Optimizer,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "CrossReplicaGradientAccumulationOptimizer",
    ) -> None:
        super().__init__(CrossReplicaOptimizer(opt), num_mini_batches, verify_usage, name)


def _type_of(variable: Any, option: Any) -> tf.DType:
    """Returns the type of the sums of a variable's gradients."""
    if option is None:
        return variable.dtype
    try:
        return tf.as_dtype(option)
    except TypeError:
        return tf.as_dtype(option(variable))
