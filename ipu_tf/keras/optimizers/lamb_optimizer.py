"""LAMB with selectable dtypes of its slots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import keras
import tensorflow as tf

from ipu_tf.internals.keras_optimizers import Variable, position_in, variables_trained_by
from ipu_tf.internals.structures import DType
from ipu_tf.keras.optimizers.ipu_optimizer_base import (
    AnyOptimizer,
    IpuOptimizerBase,
    Rate,
    slot_dtype_name,
)
from ipu_tf.keras.optimizers.moments import next_moments


class LAMBIpuOptimizerBody(AnyOptimizer):
    """The parts of `LAMBIpuOptimizer` that are the same over any Keras."""

    _STAGES: ClassVar[int] = 2

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "LAMB",
        debiasing: bool = True,
        m_dtype: DType | None = None,
        v_dtype: DType | None = None,
        weight_norm_clip: float | None = None,
        optimizer_compute_precisions: Sequence[DType] = (tf.float32, tf.float32),
        **kwargs: object,
    ) -> None:
        super().__init__(
            name=name,
            learning_rate=learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            optimizer_compute_precisions=optimizer_compute_precisions,
            **kwargs,
        )
        self.weight_decay_rate = weight_decay_rate
        self.weight_norm_clip = weight_norm_clip
        self.m_dtype = slot_dtype_name(m_dtype)
        self.v_dtype = slot_dtype_name(v_dtype)
        self.debiasing = debiasing
        # `exclude_from_weight_decay` is a method of Keras optimizers.
        self._without_decay = tuple(exclude_from_weight_decay or ())
        self._without_adaptation = tuple(exclude_from_layer_adaptation or ())

    def get_slot_dtype(self, var: Variable, slot_name: str) -> DType:
        """Returns the dtype of a variable's slot "m" or "v"."""
        return {"m": self.m_dtype, "v": self.v_dtype}[slot_name] or var.dtype

    def update_step(
        self,
        gradient: tf.Tensor | tf.IndexedSlices,
        variable: Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        """Updates a variable and its slots."""
        compute_dtype, apply_dtype = self.opt_dtypes
        first, second = next_moments(self, gradient, variable, compute_dtype)
        step = first / (tf.sqrt(second) + tf.cast(self.epsilon, compute_dtype))

        path = self._path(variable)
        weights = tf.cast(variable, compute_dtype)
        if not _matches(self._without_decay, path):
            step = step + weights * tf.cast(self.weight_decay_rate, compute_dtype)
        scale = tf.cast(learning_rate, compute_dtype)
        if not _matches(self._without_adaptation, path):
            scale = scale * self._trust_ratio(weights, step)
        update = tf.cast(scale, apply_dtype) * tf.cast(step, apply_dtype)
        self.assign_sub(variable, update)

    def _trust_ratio(self, weights: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Returns the norm of a variable over that of its step, 1 where either is 0."""
        weight_norm, step_norm = tf.norm(weights), tf.norm(step)
        if self.weight_norm_clip is not None:
            weight_norm = tf.minimum(weight_norm, tf.cast(self.weight_norm_clip, weights.dtype))
        ratio = tf.math.divide_no_nan(weight_norm, step_norm)
        return tf.where(tf.logical_and(weight_norm > 0, step_norm > 0), ratio, tf.ones_like(ratio))

    def _path(self, variable: Variable) -> str:
        """Returns the path of the Keras variable of a TensorFlow variable."""
        trained_variable = variables_trained_by(self)[position_in(self, variable)]
        return getattr(trained_variable, "path", trained_variable.name)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "exclude_from_weight_decay": list(self._without_decay),
            "exclude_from_layer_adaptation": list(self._without_adaptation),
            "weight_norm_clip": self.weight_norm_clip,
            "m_dtype": self.m_dtype,
            "v_dtype": self.v_dtype,
            "debiasing": self.debiasing,
        }


@keras.saving.register_keras_serializable("ipu_tf")
class LAMBIpuOptimizer(LAMBIpuOptimizerBody, IpuOptimizerBase, keras.optimizers.Lamb):
    """Layer-wise adaptive moments (You et al., 2020), with selectable dtypes of the slots.

    The step of a variable is Adam's plus `weight_decay_rate` times the variable, scaled to the
    norm of the variable. The first compute precision applies to the step and the norms, the second
    to the product with the learning rate.

    Args:
        learning_rate: Learning rate, a schedule or a callable.
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
        weight_decay_rate: Share of a variable that is added to its step.
        exclude_from_weight_decay: Patterns (`re.search`) of the paths of variables without decay.
        exclude_from_layer_adaptation: Patterns of the paths of variables with unscaled steps.
        name: Name of the optimizer.
        debiasing: Whether to correct the moments for their start at zero.
        m_dtype: Dtype of the slot "m", the first moment; that of the variable if None.
        v_dtype: Dtype of the slot "v", the second moment; that of the variable if None.
        weight_norm_clip: Upper limit of the norm of a variable; None sets no limit.
        optimizer_compute_precisions: Dtypes of the two stages.
        **kwargs: `outline_apply_gradients`, `outline_apply_gradients_kwargs`, and the arguments of
            `keras.optimizers.Optimizer`.

    Raises:
        ValueError: There are not two precisions, or a dtype is not one of the IPU's floating types.
    """

    _SLOTS: ClassVar[dict[str, str]] = {"momentum": "m", "velocity": "v"}


def _matches(patterns: tuple[str, ...], path: str) -> bool:
    return any(re.search(pattern, path) for pattern in patterns)
