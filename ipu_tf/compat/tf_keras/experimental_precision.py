"""`keras.mixed_precision.experimental`, which Keras 2.15 lacks."""

from __future__ import annotations

from collections.abc import Mapping

import tf_keras
from tf_keras.mixed_precision import global_policy
from tf_keras.mixed_precision import set_global_policy as set_policy

from ipu_tf.internals.tf_keras import LegacyLossScaleOptimizer, LegacyOptimizer

__all__ = ["LossScaleOptimizer", "Policy", "global_policy", "set_policy"]

_DYNAMIC = "dynamic"


class LossScaleOptimizer(LegacyLossScaleOptimizer):
    """Scales the losses of an optimizer.

    Args:
        optimizer: Updates the weights.
        loss_scale: "dynamic", or a scale that stays.
    """

    def __init__(self, optimizer: LegacyOptimizer, loss_scale: str | float = _DYNAMIC) -> None:
        if loss_scale == _DYNAMIC:
            super().__init__(optimizer)
        else:
            super().__init__(optimizer, dynamic=False, initial_scale=float(loss_scale))

    @classmethod
    def from_config(
        cls, config: Mapping[str, object], custom_objects: Mapping[str, object] | None = None
    ) -> LegacyLossScaleOptimizer:
        """Returns the optimizer of a configuration, which has the arguments of Keras 2.15."""
        return LegacyLossScaleOptimizer.from_config(config, custom_objects)


class Policy(tf_keras.mixed_precision.Policy):
    """The dtypes of layers.

    Args:
        name: Name of the policy, such as "mixed_float16".
        loss_scale: The scale of losses: `compile` takes a dynamic one for "mixed_float16".

    Raises:
        ValueError: `compile` would take another scale.
    """

    def __init__(self, name: str, loss_scale: str | float | None = "auto") -> None:
        by_compile = _DYNAMIC if name == "mixed_float16" else None
        if loss_scale not in ("auto", by_compile):
            scale = 1 if loss_scale is None else loss_scale
            raise ValueError(
                "A policy of tf_keras has no loss scale. Received: "
                f"Policy({name!r}, loss_scale={loss_scale!r}), for which `compile` takes "
                f"{by_compile!r}. Give `compile` LossScaleOptimizer(optimizer, {scale!r})."
            )
        super().__init__(name)
