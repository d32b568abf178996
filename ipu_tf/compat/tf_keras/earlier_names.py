"""Names of releases of Keras 2 before 2.15, which tf_keras is, that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import tf_keras

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.internals.tf_keras import legacy_package, policy_module, schedules_module

_POLICY = Patch(
    policy_module, "set_policy", "scripts set a policy by its earlier name", is_new=True
)

_SCHEDULES = Patch(
    legacy_package,
    "learning_rate_schedule",
    "scripts find schedules in their earlier package",
    is_new=True,
)


def _probabilities(
    model: tf_keras.Sequential, x: Any, batch_size: int | None = None, verbose: int = 0
) -> np.ndarray:
    """Returns the outputs of a model."""
    outputs: np.ndarray = model.predict(x, batch_size=batch_size, verbose=verbose)
    return outputs


def _classes(
    model: tf_keras.Sequential, x: Any, batch_size: int | None = None, verbose: int = 0
) -> np.ndarray:
    """Returns the classes of the largest outputs, or whether the one output exceeds 0.5."""
    outputs = _probabilities(model, x, batch_size, verbose)
    if outputs.shape[-1] > 1:
        return outputs.argmax(axis=-1)
    return (outputs > 0.5).astype(np.int32)


_METHODS = MappingProxyType({"predict_classes": _classes, "predict_proba": _probabilities})
_PREDICTIONS = tuple(
    Patch(tf_keras.Sequential, name, "a Sequential tells classes", is_new=True) for name in _METHODS
)


def _constant(value: Any) -> Callable[[Notify], Wrap]:
    """Returns the factory of a function or module that tf_keras lacks, or has by another name."""
    return lambda notify: lambda stock: value


SPELLINGS = (
    Spelling(
        name="`keras.mixed_precision.policy.set_policy`, `keras.mixed_precision.experimental`",
        before="`set_policy`, `global_policy`, a `Policy` with a loss scale, and a "
        "`LossScaleOptimizer(optimizer, loss_scale)`.",
        here="They are those of `keras.mixed_precision`; a `loss_scale` of a policy that `compile` "
        "does not take is refused.",
        wraps=MappingProxyType({_POLICY: _constant(tf_keras.mixed_precision.set_global_policy)}),
    ),
    Spelling(
        name="`keras.optimizer_v2.learning_rate_schedule` without an import of it",
        before="A module of its package.",
        here="It is `keras.optimizers.schedules`.",
        wraps=MappingProxyType({_SCHEDULES: _constant(schedules_module)}),
    ),
    Spelling(
        name="`model.predict_classes`, `predict_proba` of a Sequential",
        before="Classes and outputs, until Keras 2.5.",
        here="The same.",
        wraps=MappingProxyType({patch: _constant(_METHODS[patch.name]) for patch in _PREDICTIONS}),
    ),
)
"""The names, but for those that modules of the sources have; see `places`."""
