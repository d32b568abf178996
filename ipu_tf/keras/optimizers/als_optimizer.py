"""Automatic loss scaling: an optimizer that adapts the scale of the loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import keras
import tensorflow as tf

from ipu_tf.internals.keras_optimizers import Variable
from ipu_tf.internals.structures import Gradient
from ipu_tf.keras.optimizers.als_loss_scaling import (
    ALSDefaults,
    ALSOptimizerBody,
    CapturedGradients,
)
from ipu_tf.keras.optimizers.als_settings import ALSSettings

__all__ = ["ALSDefaults", "ALSOptimizer", "CapturedGradients"]


@keras.saving.register_keras_serializable("ipu_tf")
class ALSOptimizer(ALSOptimizerBody, keras.optimizers.LossScaleOptimizer):
    """Scales the loss by a factor that follows the size of the float16 gradients.

    A step sorts the elements of the scaled float16 gradients into two bins: below
    `histogram_bin_edge`, and large. After `update_frequency` steps the next one divides the factor
    by `increase_factor` if the share of the large ones reaches `ratio_threshold`, else multiplies
    it by that, as long as it stays at least 1 and below `max_loss_scaling_factor`; then the counts
    restart at zero. With an `update_frequency` of 1 every step does, as with the vendor. Factors
    are powers of two, so scaling itself rounds nothing. No step is skipped.

    With the policy `mixed_float16` the gradients of variables are float32 and do not count: wrap
    layers in `CaptureUpstreamGradients` or `CaptureActivationGradients`, whose gradients do.

    It is a Keras `LossScaleOptimizer`, so `compile` adds no second loss scaling.

    Args:
        opt: The optimizer that takes the unscaled gradients.
        initial_loss_scaling_factor: See `ALSSettings`, also for all arguments up to `name`.
        name: Name of the optimizer.

    Raises:
        ValueError: A setting is out of its range.

    Example:
        ```python
        optimizer = ALSOptimizer(keras.optimizers.SGD(0.01), update_frequency=4)
        model.compile(optimizer=optimizer, loss="mse")
        ```
    """

    def _make(self, opt: keras.optimizers.Optimizer, settings: ALSSettings, name: str) -> None:
        initial = settings.initial_loss_scaling_factor
        keras.optimizers.LossScaleOptimizer.__init__(
            self, opt, initial_scale=float(initial), name=name
        )
        self.settings = settings
        self._histogram = self.add_variable((2,), dtype="float32", name="gradient_histogram")
        self._counter = self.add_variable((), dtype="int32", name="lsf_update_counter")
        start = keras.initializers.Constant(initial)
        self.dynamic_scale = self.add_variable(
            (), initializer=start, dtype="float32", name="loss_scaling_factor"
        )
        self._previous_scale = self.add_variable(
            (), initializer=start, dtype="float32", name="prev_loss_scaling_factor"
        )

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        """Makes the variables of the wrapped optimizer."""
        self.inner_optimizer.build(var_list)
        # Skips the method of Keras' class, whose counter and scale are not needed.
        super(keras.optimizers.LossScaleOptimizer, self).build(var_list)

    def apply(
        self,
        grads: Sequence[Gradient],
        trainable_variables: Sequence[Variable] | None = None,
        captured_grads: CapturedGradients | None = None,
        captured_counts: tf.Tensor | None = None,
    ) -> None:
        """Counts scaled gradients, applies them unscaled, and updates the factor if due.

        Args:
            grads: Gradients of the scaled loss.
            trainable_variables: Their variables; None stands for the variables given to `build`.
            captured_grads: Captured gradients of the scaled loss; None stands for those captured in
                the program since the last step.
            captured_counts: The result of `count_captured`, in place of captured gradients.
        """
        if not self.built:
            self.build(list(trainable_variables or ()))
        gradients = self.unscaled(grads, captured_grads, captured_counts)
        self.inner_optimizer.apply(gradients, trainable_variables)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient, Variable]],
        captured_grads: CapturedGradients | None = None,
        global_step: Variable | None = None,
        name: str | None = None,
        captured_counts: tf.Tensor | None = None,
    ) -> tf.Variable:
        """Counts and applies gradients; see `apply`.

        Args:
            grads_and_vars: Gradients of the scaled loss, each with its variable.
            captured_grads: Captured gradients of the scaled loss.
            global_step: A variable that counts the steps, None if there is none.
            name: Accepted for compatibility; has no effect.
            captured_counts: See `apply`.

        Returns:
            The number of steps of the wrapped optimizer.
        """
        del name
        grads, variables = zip(*grads_and_vars, strict=True)
        self.apply(grads, variables, captured_grads, captured_counts)
        if global_step is not None:
            global_step.assign_add(1)
        return self.iterations

    @property
    def loss_scaling_variables(self) -> list[keras.Variable]:
        """The variables of the loss scaling, without those of the wrapped optimizer."""
        return self._variables[:]
