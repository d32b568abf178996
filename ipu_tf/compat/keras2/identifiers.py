"""Names of losses and metrics as strings that Keras 3 does not know, or reads differently."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2.spelling import Call, Notify, Spelling
from ipu_tf.internals import patches
from ipu_tf.internals.keras import objects_by_name

_LOSSES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
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


@contextlib.contextmanager
def _known(notify: Notify) -> Iterator[None]:
    """Adds the names to those that Keras knows."""
    del notify  # Given by `compile`.
    with contextlib.ExitStack() as stack:
        for module, objects in _ALL.items():
            known = objects_by_name(module)
            for name in objects.keys() - known.keys():
                stack.callback(known.pop, name)
                known[name] = objects[name]
        yield


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
    known = objects_by_name("metrics")

    def made(metric: Any) -> Any:
        nonlocal found
        kind = known.get(metric) if isinstance(metric, str) else None
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
        context=_known,
    ),
    Spelling(
        name='`compile(metrics=["AUC", "Precision"])`, names of classes',
        keras_2="The logs had the metrics' own names, such as `auc`.",
        here="The logs have the metrics' own names; Keras 3 alone takes those of the classes.",
        rewrites=MappingProxyType({patches.COMPILATION: _named_after_class}),
    ),
)
