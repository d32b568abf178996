"""The IPU's optimizers for models of tf_keras, in the classes of Keras 2.

They compute what those of `ipu_tf.keras.optimizers` do.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, ClassVar, TypeAlias

import tensorflow as tf
from tf_keras.optimizers import legacy

from ipu_tf.internals.tf_keras import (
    Hyper,
    config_of_hyper,
    learning_rate_of_step,
    set_hyper,
)
from ipu_tf.keras.optimizers.adam_optimizer import AdamIpuOptimizerBody
from ipu_tf.keras.optimizers.als_loss_scaling import ALSDefaults
from ipu_tf.keras.optimizers.als_named_optimizers import (
    ALSOptimizerAdamBody,
    ALSOptimizerRMSPropBody,
    ALSOptimizerSGDBody,
)
from ipu_tf.keras.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from ipu_tf.keras.optimizers.ipu_optimizer_base import IpuOptimizerBody
from ipu_tf.keras.optimizers.lamb_optimizer import LAMBIpuOptimizerBody
from ipu_tf.keras.optimizers.sgd_optimizer import SGDIpuOptimizerBody
from ipu_tf.keras.tf_keras.accumulation_optimizers import (
    ALSGradientAccumulationOptimizer,
    GradientAccumulationOptimizer,
)
from ipu_tf.keras.tf_keras.als_optimizer import ALSOptimizer
from ipu_tf.keras.tf_keras.layers.base import registered
from ipu_tf.keras.tf_keras.slots import OptimizerWithSlots

__all__ = [
    "ALSDefaults",
    "ALSGradientAccumulationOptimizer",
    "ALSOptimizer",
    "ALSOptimizerAdam",
    "ALSOptimizerRMSProp",
    "ALSOptimizerSGD",
    "AdamIpuOptimizer",
    "CrossReplicaOptimizer",
    "GradientAccumulationOptimizer",
    "IpuOptimizerBase",
    "LAMBIpuOptimizer",
    "SGDIpuOptimizer",
]

_Coefficients: TypeAlias = MutableMapping[tuple[str, tf.DType], dict[str, tf.Tensor]]
"""What an update computes once for all variables of a device and a dtype."""


class IpuOptimizerBase(IpuOptimizerBody, OptimizerWithSlots):
    """See `ipu_tf.keras.optimizers.IpuOptimizerBase`.

    A subclass names this class before the optimizer of tf_keras that it extends.
    """


class _Updating(IpuOptimizerBase):
    """Updates variables by the `update_step` that an optimizer has over any Keras."""

    def _prepare_local(
        self, var_device: str, var_dtype: tf.DType, apply_state: _Coefficients
    ) -> None:
        """Computes the rate of an update once, as float32: a schedule may count its calls."""
        apply_state[var_device, var_dtype]["lr_t"] = learning_rate_of_step(self, tf.float32)

    def _resource_apply_dense(
        self, grad: tf.Tensor, var: tf.Variable, apply_state: _Coefficients | None = None
    ) -> tf.Operation | None:
        """Updates a variable and its slots; returns the operation that does so."""
        coefficients = (apply_state or {}).get((var.device, var.dtype.base_dtype))
        rate = coefficients["lr_t"] if coefficients else learning_rate_of_step(self, tf.float32)
        self._updates: list[tf.Operation] = []
        self.update_step(grad, var, rate)
        return tf.group(*self._updates)

    def _resource_apply_sparse(
        self,
        grad: tf.Tensor,
        var: tf.Variable,
        indices: tf.Tensor,
        apply_state: _Coefficients | None = None,
    ) -> tf.Operation | None:
        """Updates a variable by rows of its gradient; the other rows are zero."""
        rows = tf.IndexedSlices(grad, indices, tf.shape(var))
        return self._resource_apply_dense(tf.convert_to_tensor(rows), var, apply_state)

    def assign(self, variable: tf.Variable, value: tf.Tensor) -> None:
        """Sets a variable to a value of any floating dtype."""
        self._updates.append(variable.assign(tf.cast(value, variable.dtype)))

    def assign_add(self, variable: tf.Variable, value: tf.Tensor) -> None:
        """Adds a value of any floating dtype to a variable."""
        self._updates.append(variable.assign_add(tf.cast(value, variable.dtype)))

    def assign_sub(self, variable: tf.Variable, value: tf.Tensor) -> None:
        """Subtracts a value of any floating dtype from a variable."""
        self._updates.append(variable.assign_sub(tf.cast(value, variable.dtype)))


@registered
class ALSOptimizerAdam(ALSOptimizerAdamBody, ALSOptimizer):
    """See `ipu_tf.keras.optimizers.ALSOptimizerAdam`."""

    _optimizers: ClassVar[Any] = legacy


@registered
class ALSOptimizerSGD(ALSOptimizerSGDBody, ALSOptimizer):
    """See `ipu_tf.keras.optimizers.ALSOptimizerSGD`."""

    _optimizers: ClassVar[Any] = legacy


@registered
class ALSOptimizerRMSProp(ALSOptimizerRMSPropBody, ALSOptimizer):
    """See `ipu_tf.keras.optimizers.ALSOptimizerRMSProp`."""

    _optimizers: ClassVar[Any] = legacy


@registered
class AdamIpuOptimizer(AdamIpuOptimizerBody, _Updating, legacy.Adam):
    """See `ipu_tf.keras.optimizers.AdamIpuOptimizer`."""


@registered
class SGDIpuOptimizer(SGDIpuOptimizerBody, _Updating, legacy.SGD):
    """See `ipu_tf.keras.optimizers.SGDIpuOptimizer`."""

    def _kept_momentum(self, dtype: tf.DType) -> tf.Tensor | None:
        # A number in a variable, which a graph cannot compare with 0.
        return tf.cast(self.momentum, dtype) if self.get_slot_names() else None


class _Moments(_Updating):
    """Keeps moving averages of gradients and of their squares, as the slots "m" and "v"."""

    def __init__(
        self, learning_rate: Hyper, beta_1: Hyper, beta_2: Hyper, epsilon: float, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        set_hyper(self, "learning_rate", kwargs.get("lr", learning_rate))
        set_hyper(self, "beta_1", beta_1)
        set_hyper(self, "beta_2", beta_2)
        self.epsilon = epsilon

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        for name in ("m", "v"):
            for var in var_list:
                self.add_slot(var, name)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        names = ("learning_rate", "beta_1", "beta_2")
        numbers = {name: config_of_hyper(self, name) for name in names}
        return {**super().get_config(), **numbers, "epsilon": self.epsilon}


@registered
class LAMBIpuOptimizer(LAMBIpuOptimizerBody, _Moments):
    """See `ipu_tf.keras.optimizers.LAMBIpuOptimizer`."""

    def _path(self, variable: tf.Variable) -> str:
        return str(variable.name)
