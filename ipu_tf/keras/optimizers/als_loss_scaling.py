"""The loss scaling factor of `ALSOptimizer`, over any Keras."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from ipu_tf.internals.keras_optimizers import Variable
from ipu_tf.internals.structures import Gradient, TensorStructure
from ipu_tf.keras.optimizers.als_settings import ALSSettings
from ipu_tf.keras.optimizers.attribute_guards import ReadOnly, Setting
from ipu_tf.keras.optimizers.ipu_optimizer_base import Optimizer, WrapperBody
from ipu_tf.ops import grad_util_ops, statistics_ops
from ipu_tf.runtime.tracing import hooks

ALSDefaults = ALSSettings()

CapturedGradients = Mapping[str, TensorStructure]
"""Captured gradients by tag: tensors, or lists of tensors."""


class ALSOptimizerBody(WrapperBody):
    """The parts of `ALSOptimizer` that are the same over any Keras.

    Attributes:
        settings: The settings.
        dynamic_scale: The factor.
    """

    settings: ALSSettings
    dynamic_scale: Variable
    inner_optimizer: Optimizer
    _histogram: Variable
    _counter: Variable
    _previous_scale: Variable

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
        opt: Optimizer,
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
        self._make(opt, settings, name)

    def get_name(self) -> str:
        """Returns the name of the optimizer."""
        return self.name

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        inner = self._keras.saving.serialize_keras_object(self.inner_optimizer)
        return {"opt": inner, **dataclasses.asdict(self.settings), "name": self.name}

    def scale_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns a loss times the loss scaling factor, in the loss's dtype."""
        return loss * tf.cast(tf.convert_to_tensor(self.dynamic_scale), loss.dtype)

    def get_scaled_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns a loss times the loss scaling factor, in the loss's dtype."""
        return self.scale_loss(loss)

    def get_gradients(
        self, loss: tf.Tensor, params: Sequence[Variable | tf.Tensor]
    ) -> list[Gradient]:
        """Returns the gradients of the scaled loss, inside a tf.function.

        Args:
            loss: A tensor of the function that is being traced.
            params: Variables or tensors that it was computed from.
        """
        sources = [one if tf.is_tensor(one) else one.value for one in params]
        return tf.gradients(self.scale_loss(loss), sources)

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
        grads: Sequence[Gradient],
        captured_grads: CapturedGradients | None = None,
        captured_counts: tf.Tensor | None = None,
        ends_step: bool | tf.Tensor = True,
    ) -> list[tf.Tensor | None]:
        """Counts gradients for the next factor, and returns them divided by the current one.

        Args:
            grads: Gradients of the scaled loss, None for variables without one.
            captured_grads: Captured gradients of the scaled loss; None stands for those captured in
                the program since the last step.
            captured_counts: The result of `count_captured`, in place of captured gradients.
            ends_step: Whether these are the last gradients of their step.

        Returns:
            float32 gradients.

        Raises:
            ValueError: Only captured gradients are to count, and there are none.
        """
        scale = tf.convert_to_tensor(self.dynamic_scale)
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
        gradients = [] if self.captured_grads_only else [grad for grad in grads if grad is not None]
        self._count(gradients, captured_counts, scale, ends_step)
        return [
            None if grad is None else keras.ops.divide(tf.cast(grad, tf.float32), scale)
            for grad in grads
        ]

    def _count(
        self,
        grads: list[tf.Tensor | tf.IndexedSlices],
        captured: tf.Tensor | None,
        scale: tf.Tensor,
        ends_step: bool | tf.Tensor,
    ) -> None:
        """Adds to the histogram, and updates the factor if due.

        Args:
            grads: Scaled gradients.
            captured: Counts of captured gradients, None if there are none.
            scale: The factor of the gradients.
            ends_step: Whether these are the last gradients of their step.
        """
        settings = self.settings
        steps_before = tf.convert_to_tensor(self._counter)
        counted = tf.equal(steps_before + 1, settings.steps_of_update)
        due = tf.logical_and(counted, ends_step)
        before = tf.convert_to_tensor(self._histogram)

        def new_histogram() -> tf.Tensor:
            counts_before = [before] if captured is None else [before, captured]
            counts = tf.add_n([*counts_before, *map(self._counts, _half_precision(grads))])
            alpha = settings.lpf_alpha
            return alpha * before + (1.0 - alpha) * counts if alpha else counts

        if settings.accumulate_statistics_over_update_period:
            histogram = new_histogram()
        else:
            histogram = tf.cond(counted, new_histogram, lambda: before)
        new_scale = tf.where(due, self._next_scale(histogram, scale), scale)
        self._previous_scale.assign(
            tf.where(tf.equal(new_scale, scale), tf.convert_to_tensor(self._previous_scale), scale)
        )
        self.dynamic_scale.assign(new_scale)
        self._histogram.assign(tf.where(due, tf.zeros_like(histogram), histogram))
        self._counter.assign(tf.where(due, 0, steps_before + tf.cast(ends_step, tf.int32)))

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
        new_scale = scale * factor
        inside = tf.logical_and(new_scale >= 1.0, new_scale < settings.max_loss_scaling_factor)
        return tf.where(inside, new_scale, scale)

    def reset(self) -> None:
        """Restarts the loss scaling: the initial factor, no counts."""
        self._histogram.assign(tf.zeros_like(tf.convert_to_tensor(self._histogram)))
        self._counter.assign(0)
        self.dynamic_scale.assign(self.initial_loss_scaling_factor)
        self._previous_scale.assign(self.initial_loss_scaling_factor)

    @ReadOnly
    def histogram(self) -> tf.Tensor:
        """Counts of small and of large gradients so far, float32 of shape [2]."""
        return tf.convert_to_tensor(self._histogram)

    @ReadOnly
    def normalized_histogram(self) -> tf.Tensor:
        """Shares of small and of large gradients so far, NaN before the first gradient."""
        return statistics_ops.histogram_normalize(self.histogram)

    @ReadOnly
    def loss_scaling_factor(self) -> tf.Tensor:
        """The factor of the next loss, a float32 scalar."""
        return tf.convert_to_tensor(self.dynamic_scale)

    @ReadOnly
    def previous_loss_scaling_factor(self) -> tf.Tensor:
        """The factor before its last change, a float32 scalar."""
        return tf.convert_to_tensor(self._previous_scale)

    @ReadOnly
    def update_counter(self) -> tf.Tensor:
        """Steps since the last update of the factor, an int32 scalar."""
        return tf.convert_to_tensor(self._counter)

    @ReadOnly
    def decrease_factor(self) -> float:
        """One over `increase_factor`."""
        return 1.0 / self.increase_factor

    @ReadOnly
    def supports_captured_grads(self) -> bool:
        """Always True: `apply_gradients` takes captured gradients."""
        return True


def _half_precision(grads: list[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor]:
    """Returns the float16 gradients; of a sparse one, its rows."""
    values = [grad.values if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    return [value for value in values if value.dtype == tf.float16]
