"""Adam with selectable dtypes of its slots."""

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
    slot_dtype_name,
)
from ipu_tf.keras.optimizers.moments import next_moments


class AdamIpuOptimizerBody(AnyOptimizer):
    """The parts of `AdamIpuOptimizer` that are the same over any Keras."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        m_dtype: DType | None = None,
        v_dtype: DType | None = None,
        vhat_dtype: DType | None = None,
        debiasing: bool = True,
        **kwargs: object,
    ) -> None:
        super().__init__(
            name=name,
            learning_rate=learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            amsgrad=amsgrad,
            **kwargs,
        )
        self.m_dtype = slot_dtype_name(m_dtype)
        self.v_dtype = slot_dtype_name(v_dtype)
        self.vhat_dtype = slot_dtype_name(vhat_dtype)
        self.debiasing = debiasing

    def get_slot_dtype(self, var: Variable, slot_name: str) -> DType:
        """Returns the dtype of a variable's slot "m", "v" or "vhat"."""
        dtypes = {"m": self.m_dtype, "v": self.v_dtype, "vhat": self.vhat_dtype}
        return dtypes[slot_name] or var.dtype

    def update_step(
        self,
        gradient: tf.Tensor | tf.IndexedSlices,
        variable: Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        """Updates a variable and its slots."""
        compute_dtype = self.opt_dtypes[0]
        m_hat, v_hat = next_moments(self, gradient, variable, compute_dtype)
        if self.amsgrad:
            largest = self.get_slot(variable, "vhat")
            v_hat = tf.maximum(tf.cast(tf.convert_to_tensor(largest), compute_dtype), v_hat)
            self.assign(largest, v_hat)
        step = m_hat / (tf.sqrt(v_hat) + tf.cast(self.epsilon, compute_dtype))
        self.assign_sub(variable, tf.cast(learning_rate, compute_dtype) * step)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        return {
            **super().get_config(),
            "m_dtype": self.m_dtype,
            "v_dtype": self.v_dtype,
            "vhat_dtype": self.vhat_dtype,
            "debiasing": self.debiasing,
        }


@keras.saving.register_keras_serializable("ipu_tf")
class AdamIpuOptimizer(AdamIpuOptimizerBody, IpuOptimizerBase, keras.optimizers.Adam):
    """Adam whose moments may have other dtypes than their variables.

    `epsilon` is added to the root of the corrected second moment, as in the paper's Algorithm 1
    (Kingma and Ba, 2015). Keras adds it before the correction: both give the same unless gradients
    are small compared to `epsilon`.

    Args:
        learning_rate: Learning rate, a schedule or a callable.
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
        amsgrad: Whether to divide by the largest second moment so far.
        name: Name of the optimizer.
        m_dtype: Dtype of the slot "m", the first moment; that of the variable if None.
        v_dtype: Dtype of the slot "v", the second moment; that of the variable if None.
        vhat_dtype: Dtype of the slot "vhat" of `amsgrad`; that of the variable if None.
        debiasing: Whether to correct the moments for their start at zero.
        **kwargs: `optimizer_compute_precisions` (one dtype), `outline_apply_gradients`,
            `outline_apply_gradients_kwargs`, and the arguments of `keras.optimizers.Optimizer`.

    Raises:
        ValueError: A dtype is not one of the IPU's floating types.
    """

    _SLOTS: ClassVar[dict[str, str]] = {"momentum": "m", "velocity": "v", "velocity_hat": "vhat"}
