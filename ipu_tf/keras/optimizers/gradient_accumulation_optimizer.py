"""An optimizer that applies the gradients of several micro-batches at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.internals.keras_optimizers import (
    Variable,
    check_is_built_for,
    position_in,
    variables_trained_by,
)
from ipu_tf.internals.structures import DType, Gradient
from ipu_tf.keras.optimizers.ipu_optimizer_base import (
    Optimizer,
    Rate,
    WrapperBody,
    dense,
    dtype_name,
    slot_dtype_name,
)


class GradientAccumulationBody(WrapperBody):
    """The parts of `GradientAccumulationOptimizer` that are the same over any Keras."""

    inner_optimizer: Optimizer
    _steps: Variable

    def __init__(
        self,
        opt: Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: DType | None = None,
        reduction_method: Method | str = Method.SUM,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        if isinstance(num_mini_batches, bool) or not (
            isinstance(num_mini_batches, int) and num_mini_batches > 0
        ):
            raise ValueError(
                "num_mini_batches must be a positive whole number. "
                f"Received: num_mini_batches={num_mini_batches!r}."
            )
        self._make(opt, name)
        self.num_mini_batches = num_mini_batches
        self.offload_weight_update_variables = offload_weight_update_variables
        self.replicated_optimizer_state_sharding = replicated_optimizer_state_sharding
        self.dtype = slot_dtype_name(dtype)
        self.reduction_method = Method.parse(reduction_method)

    def ends_update(self) -> tf.Tensor:
        """Returns whether the next micro-batch is the last of its update, a bool scalar."""
        return tf.equal(tf.convert_to_tensor(self._steps) + 1, self.num_mini_batches)

    def _accumulate(
        self, pairs: Sequence[tuple[Variable, Gradient]], update: Callable[[list[tf.Tensor]], None]
    ) -> None:
        """Adds gradients to their accumulators; calls `update` with them at its step.

        Args:
            pairs: Accumulators, each with the gradient of one micro-batch.
            update: Applies the reduced gradients.
        """
        step = tf.convert_to_tensor(self._steps) + 1
        for accumulator, gradient in pairs:
            accumulator.assign(self._accumulated(accumulator, gradient, step))

        def update_and_restart() -> None:
            update([tf.convert_to_tensor(accumulator) for accumulator, _ in pairs])
            self._steps.assign(0)
            for accumulator, _ in pairs:
                accumulator.assign(tf.zeros_like(tf.convert_to_tensor(accumulator)))

        def wait() -> None:
            self._steps.assign(step)

        keras.ops.cond(tf.equal(step, self.num_mini_batches), update_and_restart, wait)

    def _accumulated(
        self, accumulator: Variable, grad: tf.Tensor | tf.IndexedSlices, step: tf.Tensor
    ) -> tf.Tensor:
        """Returns an accumulator's value after the gradient of the `step`-th micro-batch."""
        # Rounded once, to the dtype of the accumulator.
        before = tf.cast(tf.convert_to_tensor(accumulator), tf.float32)
        grad = tf.cast(dense(grad), tf.float32)
        if self.reduction_method is Method.SUM:
            value = before + grad
        elif self.reduction_method is Method.MEAN:
            value = before + grad / self.num_mini_batches
        else:
            value = before + (grad - before) / tf.cast(step, tf.float32)
        return tf.cast(value, accumulator.dtype)

    @property
    def learning_rate(self) -> Rate | tf.Variable:
        """The learning rate of the wrapped optimizer."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Rate) -> None:
        self.inner_optimizer.learning_rate = learning_rate

    @property
    def iterations(self) -> tf.Variable:
        """The number of updates."""
        return self.inner_optimizer.iterations

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        return {
            "opt": self._keras.saving.serialize_keras_object(self.inner_optimizer),
            "num_mini_batches": self.num_mini_batches,
            "offload_weight_update_variables": self.offload_weight_update_variables,
            "replicated_optimizer_state_sharding": self.replicated_optimizer_state_sharding,
            "dtype": self.dtype,
            "reduction_method": self.reduction_method.name,
            "name": self.name,
        }


@keras.saving.register_keras_serializable("ipu_tf")
class GradientAccumulationOptimizer(GradientAccumulationBody, keras.optimizers.Optimizer):
    """Reduces the gradients of `num_mini_batches` steps, then applies them with another optimizer.

    `iterations` counts updates, and so do schedules of the wrapped optimizer.

    Args:
        opt: The optimizer that takes the reduced gradients.
        num_mini_batches: Number of steps for one update.
        offload_weight_update_variables: Whether the device keeps the data that only updates need
            in remote memory; None leaves it to the compiler. The numbers stay the same.
        replicated_optimizer_state_sharding: Whether replicas share out that data.
        dtype: Dtype of the accumulated gradients; the variable's dtype if None.
        reduction_method: A `GradientAccumulationReductionMethod` or its name.
        name: Name of the optimizer.

    Raises:
        ValueError: `num_mini_batches` is not a positive whole number, or the method or the dtype
            is unknown.
    """

    def _make(self, opt: keras.optimizers.Optimizer, name: str) -> None:
        keras.optimizers.Optimizer.__init__(self, learning_rate=0.0, name=name)
        self.inner_optimizer = opt
        self._steps = self.add_variable((), dtype="int32", name="accumulated_mini_batches")

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes the accumulators, and the variables of the wrapped optimizer."""
        if not self.inner_optimizer.built:
            self.inner_optimizer.build(variables)
        super().build(variables)
        self._accumulators = [
            self.add_variable(
                variable.shape,
                dtype=self.dtype or dtype_name(variable.dtype),
                name=f"{variable.name}_gradient_accumulator",
            )
            for variable in variables
        ]

    def apply(
        self, grads: Sequence[Gradient], trainable_variables: Sequence[Variable] | None = None
    ) -> None:
        """Adds gradients to the accumulators; at the last step of an update, applies them.

        Args:
            grads: Gradients of one micro-batch, None for variables without one.
            trainable_variables: Their variables; None stands for the variables given to `build`.
        """
        if not self.built:
            self.build(list(trainable_variables or ()))
        variables = list(trainable_variables or variables_trained_by(self))
        check_is_built_for(self, variables)
        pairs = [pair for pair in zip(grads, variables, strict=True) if pair[0] is not None]
        trained_variables = [variable for _, variable in pairs]
        self._accumulate(
            [(self._accumulators[position_in(self, variable)], grad) for grad, variable in pairs],
            lambda reduced: self.inner_optimizer.apply(reduced, trained_variables),
        )

    @property
    def variables(self) -> list[keras.Variable]:
        """Its own variables and those of the wrapped optimizer."""
        return self._variables + self.inner_optimizer.variables

    def scale_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss as scaled by the wrapped optimizer."""
        return self.inner_optimizer.scale_loss(loss)
