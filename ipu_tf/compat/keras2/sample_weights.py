"""Weights of samples as Keras 2 took them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ipu_tf.compat.keras2.training import LOOP, ON_BATCHES
from ipu_tf.compat.spellings.spelling import Call, Spelling

_WEIGHTS = "sample_weight"


def _of_outputs(call: Call) -> bool:
    """Brings the weights of several outputs into the structure of the targets."""
    names = list(getattr(call.owner, "output_names", None) or ())
    weights, targets = call.kwargs.get(_WEIGHTS), _targets(call)
    is_keras_2 = False
    if isinstance(weights, Mapping | list | tuple):
        call.kwargs[_WEIGHTS] = like_targets(weights, targets, names)
        is_keras_2 = call.kwargs[_WEIGHTS] is not weights
    validation = call.kwargs.get("validation_data")
    if isinstance(validation, tuple | list) and len(validation) == 3:
        x, y, weights = validation
        converted = like_targets(weights, y, names)
        call.kwargs["validation_data"] = (x, y, converted)
        is_keras_2 |= converted is not weights
    return is_keras_2


def _targets(call: Call) -> Any:
    return call.args[1] if len(call.args) > 1 else call.kwargs.get("y")


def like_targets(weights: Any, targets: Any, names: Sequence[str]) -> Any:
    """Returns weights in the structure of the targets of several outputs.

    Args:
        weights: A weight of each output, or weights by the names of some outputs; others are
            returned as they are.
        targets: The target of each output, or targets by the names of outputs.
        names: The names of the outputs in their order.
    """
    if isinstance(targets, list | tuple) and isinstance(weights, Mapping):
        if not set(weights) <= set(names) or len(targets) != len(names):
            return weights
        parts = zip(names, targets, strict=True)
        return type(targets)(weights.get(name, _ones(target)) for name, target in parts)
    if isinstance(targets, Mapping) and isinstance(weights, Mapping):
        missing = {name: _ones(targets[name]) for name in targets if name not in weights}
        return {**weights, **missing} if missing else weights
    if isinstance(targets, Mapping) and isinstance(weights, list | tuple):
        is_whole = len(weights) == len(names) and set(targets) == set(names)
        return dict(zip(names, weights, strict=True)) if is_whole else weights
    if isinstance(targets, list | tuple) and isinstance(weights, list | tuple):
        return weights if type(weights) is type(targets) else type(targets)(weights)
    return weights


def _ones(target: Any) -> np.ndarray:
    return np.ones(len(target), np.float32)


def _of_samples_and_classes(call: Call) -> bool:
    """Multiplies weights of samples by those of their classes."""
    weights, of_classes = call.kwargs.get(_WEIGHTS), call.kwargs.get("class_weight")
    targets = _targets(call)
    if not isinstance(of_classes, Mapping) or not hasattr(weights, "shape"):
        return False
    if not hasattr(targets, "shape"):
        return False
    targets = np.asarray(targets)
    is_one_hot = targets.ndim > 1 and targets.shape[-1] > 1
    classes = targets.argmax(-1) if is_one_hot else targets.reshape(len(targets)).astype(int)
    factors = np.array([of_classes.get(int(one), 1.0) for one in classes], np.float32)
    call.kwargs[_WEIGHTS] = np.asarray(weights) * factors
    del call.kwargs["class_weight"]
    return True


SPELLINGS = (
    Spelling(
        name='`fit(sample_weight={"output": weights})` of a model of several outputs, also '
        "`train_on_batch`",
        keras_2="Weights had names of outputs or were a list, whatever the targets were; an output "
        "without weights had weight 1.",
        here="It is so; Keras 3 alone takes weights in the structure of the targets.",
        rewrites=MappingProxyType(dict.fromkeys((*LOOP, *ON_BATCHES), _of_outputs)),
    ),
    Spelling(
        name="`fit(class_weight=, sample_weight=)`, both",
        keras_2="A sample's weight was multiplied by that of its class.",
        here="It is, for arrays; Keras 3 alone refuses both.",
        rewrites=MappingProxyType(dict.fromkeys(LOOP, _of_samples_and_classes)),
    ),
)
