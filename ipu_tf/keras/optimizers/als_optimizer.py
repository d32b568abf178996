"""Automatic loss scaling: an optimizer that adapts the scale of the loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.keras.optimizers.als_settings import ALSSettings
from ipu_tf.keras.optimizers.attribute_guards import ReadOnly, Setting
from ipu_tf.ops import grad_util_ops, statistics_ops
from ipu_tf.runtime.tracing import hooks

ALSDefaults = ALSSettings()

CapturedGradients = Mapping[str, Any]
"""Captured gradients by tag: tensors, or lists of tensors."""


@keras.saving.register_keras_serializable("ipu_tf")
class ALSOptimizer(keras.optimizers.LossScaleOptimizer):
    """Scales the loss by a factor that follows the size of the float16 gradients.

    A step sorts the elements of the scaled float16 gradients into two bins: below
    `histogram_bin_edge`, and large. Every `update_frequency` steps the factor is divided by
    `increase_factor` if the share of the large ones reaches `ratio_threshold`, else multiplied by
    it, as long as it stays at least 1 and below `max_loss_scaling_factor`; then the counts restart
    at zero. Factors are powers of two, so scaling itself rounds nothing. No step is skipped.

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

    initial_loss_scaling_factor = Setting()
    update_frequency = Setting()
    increase_factor = Setting()
    max_loss_scaling_factor = Setting()
    accumulate_statistics_over_update_period = Setting()
    ratio_threshold = Setting()
    captured_grads_only = Setting()
    lpf_alpha = Setting()
    histogram_bin_edge = Setting()

    def __init__(
        self,
        opt: keras.optimizers.Optimizer,
        initial_loss_scaling_factor: float = ALSDefaults.initial_loss_scaling_factor,
        update_frequency: int = ALSDefaults.update_frequency,
        increase_factor: float = ALSDefaults.increase_factor,
        max_loss_scaling_factor: float = ALSDefaults.max_loss_scaling_factor,
        accumulate_statistics_over_update_period: bool = (
            ALSDefaults.accumulate_statistics_over_update_period
        ),
        ratio_threshold: float = ALSDefaults.ratio_threshold,
        captured_grads_only: bool = ALSDefaults.captured_grads_only,
        lpf_alpha: float = ALSDefaults.lpf_alpha,
        histogram_bin_edge: float = ALSDefaults.histogram_bin_edge,
        name: str = "ALSOptimizer",
    ) -> None:
        settings = ALSSettings(
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency,
            increase_factor=increase_factor,
            max_loss_scaling_factor=max_loss_scaling_factor,
            accumulate_statistics_over_update_period=accumulate_statistics_over_update_period,
            ratio_threshold=ratio_threshold,
            captured_grads_only=captured_grads_only,
            lpf_alpha=lpf_alpha,
            histogram_bin_edge=histogram_bin_edge,
        )
        super().__init__(opt, initial_scale=float(initial_loss_scaling_factor), name=name)
        self.settings = settings
        self._histogram = self.add_variable((2,), dtype="float32", name="gradient_histogram")
        self._counter = self.add_variable((), dtype="int32", name="lsf_update_counter")
        start = keras.initializers.Constant(initial_loss_scaling_factor)
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

    def scale_loss(self, loss: Any) -> Any:
        """Returns a loss times the loss scaling factor, in the loss's dtype."""
        return loss * tf.cast(self.dynamic_scale.value, loss.dtype)

    def get_scaled_loss(self, loss: Any) -> Any:
        """Returns a loss times the loss scaling factor, in the loss's dtype."""
        return self.scale_loss(loss)

    def get_gradients(self, loss: tf.Tensor, params: Sequence[Any]) -> list[Any]:
        """Returns the gradients of the scaled loss, inside a tf.function.

        Args:
            loss: A tensor of the function that is being traced.
            params: Variables or tensors that it was computed from.
        """
        sources = [getattr(param, "value", param) for param in params]
        return tf.gradients(self.scale_loss(loss), sources)

    def apply(
        self,
        grads: Sequence[Any],
        trainable_variables: Sequence[Any] | None = None,
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
        unscaled = self.unscaled(grads, captured_grads, captured_counts)
        self.inner_optimizer.apply(unscaled, trainable_variables)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        captured_grads: CapturedGradients | None = None,
        global_step: Any = None,
        name: str | None = None,
        captured_counts: tf.Tensor | None = None,
    ) -> Any:
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

    def count_captured(self, captured_grads: CapturedGradients) -> tf.Tensor:
        """Returns how many small and large elements captured gradients have, float32 of shape [2].

        Counts of several micro-batches add up to the counts of their step.

        Args:
            captured_grads: Captured gradients of the scaled loss.
        """
        halves = _half_precision(tf.nest.flatten(dict(captured_grads)))
        return tf.add_n([tf.zeros((2,)), *map(self._counts, halves)])

    def unscaled(
        self,
        grads: Sequence[Any],
        captured_grads: CapturedGradients | None = None,
        captured_counts: tf.Tensor | None = None,
    ) -> list[Any]:
        """Counts gradients for the next factor, and returns them divided by the current one.

        Args:
            grads: Gradients of the scaled loss, None for variables without one.
            captured_grads: Captured gradients of the scaled loss; None stands for those captured in
                the program since the last step.
            captured_counts: The result of `count_captured`, in place of captured gradients.

        Returns:
            float32 gradients.

        Raises:
            ValueError: Only captured gradients are to count, and there are none.
        """
        scale = tf.convert_to_tensor(self.dynamic_scale.value)
        tracer = hooks.active()
        if tracer is not None:
            tracer.note_loss_scale(scale)
        if captured_grads is None and captured_counts is None:
            captured_grads = grad_util_ops.take_captured_gradients()
        if captured_grads:
            captured_counts = self.count_captured(captured_grads)
        if self.captured_grads_only and captured_counts is None:
            raise ValueError(
                f"Optimizer '{self.name}' counts captured gradients alone (captured_grads_only), "
                "but this step has none. Wrap layers in CaptureUpstreamGradients or "
                "CaptureActivationGradients, whose gradients must be taken in the same program as "
                "the step of the optimizer, or pass `captured_grads`. Received: no captured "
                "gradients."
            )
        counted = [] if self.captured_grads_only else [grad for grad in grads if grad is not None]
        self._count(counted, captured_counts, scale)
        return [
            None if grad is None else keras.ops.divide(tf.cast(grad, tf.float32), scale)
            for grad in grads
        ]

    def _count(self, grads: list[Any], captured: tf.Tensor | None, scale: tf.Tensor) -> None:
        """Adds to the histogram, and updates the factor if due.

        Args:
            grads: Scaled gradients.
            captured: Counts of captured gradients, None if there are none.
            scale: The factor of the gradients.
        """
        settings = self.settings
        step = self._counter.value + 1
        due = tf.equal(step, settings.update_frequency)
        before = tf.convert_to_tensor(self._histogram.value)

        def counted() -> tf.Tensor:
            known = [before] if captured is None else [before, captured]
            counts = tf.add_n([*known, *map(self._counts, _half_precision(grads))])
            alpha = settings.lpf_alpha
            return alpha * before + (1.0 - alpha) * counts if alpha else counts

        if settings.accumulate_statistics_over_update_period:
            histogram = counted()
        else:
            histogram = tf.cond(due, counted, lambda: before)
        moved = tf.where(due, self._next_scale(histogram, scale), scale)
        self._previous_scale.assign(
            tf.where(tf.equal(moved, scale), self._previous_scale.value, scale)
        )
        self.dynamic_scale.assign(moved)
        self._histogram.assign(tf.where(due, tf.zeros_like(histogram), histogram))
        self._counter.assign(tf.where(due, 0, step))

    def _counts(self, grad: tf.Tensor) -> tf.Tensor:
        values = tf.reshape(grad, [-1])
        return statistics_ops.histogram(values, [self.histogram_bin_edge], absolute_of_input=True)

    def _next_scale(self, histogram: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        """Returns the factor after an update; one that would leave its range stays."""
        settings = self.settings
        share = tf.math.divide_no_nan(histogram[1], tf.reduce_sum(histogram))
        factor = tf.where(
            share < settings.ratio_threshold, float(self.increase_factor), self.decrease_factor
        )
        moved = scale * factor
        inside = tf.logical_and(moved >= 1.0, moved < settings.max_loss_scaling_factor)
        return tf.where(inside, moved, scale)

    def reset(self) -> None:
        """Restarts the loss scaling: the initial factor, no counts."""
        self._histogram.assign(tf.zeros_like(self._histogram.value))
        self._counter.assign(0)
        self.dynamic_scale.assign(self.initial_loss_scaling_factor)
        self._previous_scale.assign(self.initial_loss_scaling_factor)

    @property
    def loss_scaling_variables(self) -> list[keras.Variable]:
        """The variables of the loss scaling, without those of the wrapped optimizer."""
        return self._variables[:]

    def get_name(self) -> str:
        """Returns the name of the optimizer."""
        return self.name

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make this optimizer."""
        inner = keras.saving.serialize_keras_object(self.inner_optimizer)
        return {"opt": inner, **dataclasses.asdict(self.settings), "name": self.name}

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None
    ) -> ALSOptimizer:
        """Returns the optimizer that `get_config` describes."""
        arguments = dict(config)
        inner = keras.saving.deserialize_keras_object(
            arguments.pop("opt"), custom_objects=custom_objects
        )
        return cls(inner, **arguments)

    @ReadOnly
    def histogram(self) -> tf.Tensor:
        """Counts of small and of large gradients so far, float32 of shape [2]."""
        return tf.convert_to_tensor(self._histogram.value)

    @ReadOnly
    def normalized_histogram(self) -> tf.Tensor:
        """Shares of small and of large gradients so far, NaN before the first gradient."""
        return statistics_ops.histogram_normalize(self.histogram)

    @ReadOnly
    def loss_scaling_factor(self) -> tf.Tensor:
        """The factor of the next loss, a float32 scalar."""
        return tf.convert_to_tensor(self.dynamic_scale.value)

    @ReadOnly
    def previous_loss_scaling_factor(self) -> tf.Tensor:
        """The factor before its last change, a float32 scalar."""
        return tf.convert_to_tensor(self._previous_scale.value)

    @ReadOnly
    def update_counter(self) -> tf.Tensor:
        """Steps since the last update of the factor, an int32 scalar."""
        return tf.convert_to_tensor(self._counter.value)

    @ReadOnly
    def decrease_factor(self) -> float:
        """One over `increase_factor`."""
        return 1.0 / self.increase_factor

    @ReadOnly
    def supports_captured_grads(self) -> bool:
        """Always True: `apply_gradients` takes captured gradients."""
        return True


def _half_precision(grads: list[Any]) -> list[tf.Tensor]:
    """Returns the float16 gradients; of a sparse one, its rows."""
    values = [grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    return [value for value in values if value.dtype == tf.float16]
