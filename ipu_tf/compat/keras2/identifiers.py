"""Names of objects as strings that Keras 3 does not know, or reads differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.keras import (
    keras_activations,
    keras_constraints,
    keras_losses,
    keras_metrics,
    keras_regularizers,
)
from ipu_tf.internals.patches import Patch, Wrap

_IDENTIFIERS = tuple(
    Patch(owner, "ALL_OBJECTS_DICT", "strings find custom objects")
    for owner in (
        keras_activations,
        keras_constraints,
        keras_losses,
        keras_metrics,
        keras_regularizers,
    )
)

_LOSSES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "cosine_proximity": keras.losses.cosine_similarity,
        "huber_loss": keras.losses.huber,
        "kullback_leibler_divergence": keras.losses.kl_divergence,
        "logcosh": keras.losses.log_cosh,
    }
)
_METRICS: Mapping[str, type[keras.Metric]] = MappingProxyType(
    {
        "cosine_proximity": keras.metrics.CosineSimilarity,
        "kullback_leibler_divergence": keras.metrics.KLDivergence,
        "log_cosh": keras.metrics.LogCoshError,
        "logcosh": keras.metrics.LogCoshError,
    }
)
_CONSTRAINTS: Mapping[str, type[keras.constraints.Constraint]] = MappingProxyType(
    {
        "maxnorm": keras.constraints.MaxNorm,
        "nonneg": keras.constraints.NonNeg,
        "unitnorm": keras.constraints.UnitNorm,
    }
)
_ALL = MappingProxyType({"losses": _LOSSES, "metrics": _METRICS, "constraints": _CONSTRAINTS})
"""The names, by the module of Keras whose `get` takes them."""


class _Table(dict[str, Any]):
    """A table of Keras' own objects that looks a name up among the custom ones first."""

    def __init__(self, objects: Mapping[str, Any], notify: Notify) -> None:
        super().__init__(objects)
        self._notify = notify

    def get(self, key: str, default: Any = None) -> Any:
        custom = keras.saving.get_registered_object(key)
        if custom is None:
            return super().get(key, default)
        self._notify()
        return custom


def _with_names(module: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of a module's table, with its names of Keras 2 and custom objects."""
    return lambda notify: lambda stock: _Table({**_ALL.get(module, {}), **stock}, notify)


def _uses_names(call: Call) -> bool:
    """Returns whether a call of `compile` has a name that Keras 3 lacks."""
    losses = (*call.args[1:2], call.kwargs.get("loss"))
    metrics = (call.kwargs.get("metrics"), call.kwargs.get("weighted_metrics"))
    return _has_any(losses, _LOSSES) or _has_any(metrics, _METRICS)


def _has_any(structure: Any, names: Mapping[str, Any]) -> bool:
    leaves = keras.tree.flatten(structure)
    return any(isinstance(leaf, str) and leaf in names for leaf in leaves)


def _named_after_class(call: Call) -> bool:
    """Makes metrics that are given by the names of classes, such as "AUC", objects."""
    found = False

    def made(metric: Any) -> Any:
        nonlocal found
        kind = keras_metrics.ALL_OBJECTS_DICT.get(metric) if isinstance(metric, str) else None
        if not isinstance(kind, type) or kind.__name__ != metric:
            return metric
        found = True
        return kind()

    for name in ("metrics", "weighted_metrics"):
        if call.kwargs.get(name) is not None:
            call.kwargs[name] = keras.tree.map_structure(made, call.kwargs[name])
    return found


SPELLINGS = (
    Spelling(
        name='`compile(metrics=["cosine_proximity"])`, "kullback_leibler_divergence", "logcosh", '
        '"huber_loss" of losses and metrics',
        keras_2="They named functions.",
        here="They name those that Keras 3 has under another name; the logs have the name that the "
        "script says.",
        rewrites=MappingProxyType({patches.COMPILATION: _uses_names}),
    ),
    Spelling(
        name='`compile(metrics=["AUC", "Precision"])`, names of classes',
        keras_2="The logs had the metrics' own names, such as `auc`.",
        here="The logs have the metrics' own names; Keras 3 alone takes those of the classes.",
        rewrites=MappingProxyType({patches.COMPILATION: _named_after_class}),
    ),
    Spelling(
        name='`get_custom_objects()["mine"] = function`, then `activation="mine"`, `loss="mine"`, '
        '`metrics=["mine"]`, `kernel_regularizer="mine"`, `kernel_constraint="mine"`',
        keras_2="The string was the custom object of that name.",
        here="It is; Keras 3 alone looks among its own objects.",
        wraps=MappingProxyType(
            {patch: _with_names(patch.owner.__name__.rpartition(".")[2]) for patch in _IDENTIFIERS}
        ),
    ),
)
