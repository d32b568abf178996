"""Losses and metrics of outputs in a dictionary, such as those of Hugging Face's models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2.training import copied_metric
from ipu_tf.compat.spellings.spelling import Call, Spelling
from ipu_tf.internals.keras_training import (
    KerasCompiledLoss,
    KerasCompiledMetrics,
    change_unbuilt_metrics,
)
from ipu_tf.internals.patches import Patch

_COMPILED_LOSS_CALLS = Patch(
    KerasCompiledLoss, "__call__", "outputs in a dictionary may have one target"
)
_COMPILED_METRIC_UPDATES = Patch(
    KerasCompiledMetrics, "update_state", "outputs in a dictionary may have one target"
)

_NAMES = ("y_true", "y_pred")


def _with_targets(call: Call) -> bool:
    """Gives each output of a dictionary its target, and leaves out those that have none."""
    given = dict(zip((*_NAMES, "sample_weight"), call.args, strict=False)) | call.kwargs
    targets, outputs = given.get("y_true"), given.get("y_pred")
    if not isinstance(outputs, Mapping) or targets is None:
        return False
    if not keras.tree.is_nested(targets):
        targets = {name: _repeated(targets, output) for name, output in outputs.items()}
    elif not isinstance(targets, Mapping):
        return False
    found = {name: output for name, output in outputs.items() if name in targets}
    if not found or (type(outputs) is dict and targets.keys() == outputs.keys()):
        return targets is not given["y_true"] and _replace(call, given, targets, outputs)
    return _replace(call, given, {name: targets[name] for name in found}, found)


def _replace(call: Call, given: dict[str, Any], targets: Any, outputs: Any) -> bool:
    call.args, call.kwargs = (), given | dict(zip(_NAMES, (targets, outputs), strict=True))
    return True


def _repeated(target: Any, output: Any) -> Any:
    """Returns a target for each tensor of an output."""
    return keras.tree.map_structure(lambda _: target, output)


def _with_metrics(call: Call) -> bool:
    """Gives each output of a dictionary its target and all metrics of a flat list."""
    is_keras_2 = _with_targets(call)
    outputs = call.kwargs.get("y_pred")
    if isinstance(outputs, Mapping) and len(outputs) > 1:
        change_unbuilt_metrics(call.owner, lambda metrics: _of_each(metrics, list(outputs)))
    return is_keras_2


def _of_each(metrics: Any, names: Sequence[str]) -> Any:
    """Returns the metrics of each output; a list of metrics alone is that of every output."""
    if not isinstance(metrics, list | tuple) or any(map(keras.tree.is_nested, metrics)):
        return metrics
    return {name: [copied_metric(metric) for metric in metrics] for name in names}


SPELLINGS = (
    Spelling(
        name="one target, or targets of some outputs, for outputs in a dictionary",
        keras_2="One target was that of every output; outputs without a target had no loss. Each "
        "output had all metrics of a flat list.",
        here="It is so.",
        rewrites=MappingProxyType(
            {
                _COMPILED_LOSS_CALLS: _with_targets,
                _COMPILED_METRIC_UPDATES: _with_metrics,
            }
        ),
    ),
)
