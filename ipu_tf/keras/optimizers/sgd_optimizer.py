"""SGD with a selectable dtype of its momentum."""

from __future__ import annotations

from typing import ClassVar

import keras
import tensorflow as tf

from ipu_tf.internals.keras_optimizers import Variable
from ipu_tf.internals.structures import DType
from ipu_tf.keras.optimizers.ipu_optimizer_base import (
    AnyOptimizer,
    IpuOptimizerBase,
    Rate,
    dense,
    slot_dtype_name,
)


class SGDIpuOptimizerBody(AnyOptimizer):
    """The parts of `SGDIpuOptimizer` that are the same over any Keras."""

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        momentum_accum_dtype: DType | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(
            name=name,
            learning_rate=learning_rate,
            momentum=momentum,
            nesterov=nesterov,
            **kwargs,
        )
        self.momentum_accum_dtype = slot_dtype_name(momentum_accum_dtype)

    def get_slot_dtype(self, var: Variable, slot_name: str) -> DType:
        """Returns the dtype of a variable's slot "momentum"."""
        del slot_name
        return self.momentum_accum_dtype or var.dtype

    def update_step(
        self,
        gradient: tf.Tensor | tf.IndexedSlices,
        variable: Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        """Updates a variable and its slot."""
        compute_dtype = self.opt_dtypes[0]
        step = tf.cast(learning_rate, compute_dtype) * tf.cast(dense(gradient), compute_dtype)
        momentum = self._kept_momentum(compute_dtype)
        if momentum is None:
            self.assign_sub(variable, step)
            return
        slot = self.get_slot(variable, "momentum")
        velocity = tf.cast(tf.convert_to_tensor(slot), compute_dtype) * momentum - step
        self.assign(slot, velocity)
        self.assign_add(variable, velocity * momentum - step if self.nesterov else velocity)

    def _kept_momentum(self, dtype: tf.DType) -> tf.Tensor | None:
        """Returns the share of the momentum that is kept at a step, None without momentum."""
        return tf.cast(self.momentum, dtype) if self.momentum else None

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        return {**super().get_config(), "momentum_accum_dtype": self.momentum_accum_dtype}


@keras.saving.register_keras_serializable("ipu_tf")
class SGDIpuOptimizer(SGDIpuOptimizerBody, IpuOptimizerBase, keras.optimizers.SGD):
    """Gradient descent with momentum, whose dtype may differ from the variable's.

    Args:
        learning_rate: Learning rate, a schedule or a callable.
        momentum: Share of the momentum that is kept at a step, from 0 to 1; 0 keeps no momentum.
        nesterov: Whether to use Nesterov's momentum.
        name: Name of the optimizer.
        momentum_accum_dtype: Dtype of the slot "momentum"; that of the variable if None.
        **kwargs: `optimizer_compute_precisions` (one dtype), `outline_apply_gradients`,
            `outline_apply_gradients_kwargs`, and the arguments of `keras.optimizers.Optimizer`.

    Raises:
        ValueError: A dtype is not one of the IPU's floating types.
    """

    _SLOTS: ClassVar[dict[str, str]] = {"momentum": "momentum"}
