"""Targets and losses of models of several outputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.keras2.training import methods_of_loop
from ipu_tf.compat.spellings.spelling import Call, Rewrite, Spelling

_METHODS = methods_of_loop("fit", "evaluate", "train_on_batch", "test_on_batch")
_VALIDATION = "validation_data"


def _output_names(model: Any) -> list[str]:
    """Returns the names of the outputs of a model that has several, else none."""
    names = list(getattr(model, "output_names", None) or ())
    return names if len(names) > 1 else []


def _targets_of(method: str) -> Rewrite:
    """Returns the rewrite that gives each output its target."""

    def rewrite(call: Call) -> bool:
        names = _output_names(call.owner)
        if not names or isinstance(call.owner.output, Mapping):
            return False
        positions = list(inspect.signature(getattr(keras.Model, method)).parameters)[1:]
        given = dict(zip(positions, call.args, strict=False)) | call.kwargs
        targets = _targets(given.get("y"), given.get("sample_weight"), names)
        validation = _validation(given.get(_VALIDATION), names)
        if targets is given.get("y") and validation is given.get(_VALIDATION):
            return False
        call.args, call.kwargs = (), given | {"y": targets}
        if validation is not None:
            call.kwargs[_VALIDATION] = validation
        return True

    return rewrite


def _targets(y: Any, weights: Any, names: list[str]) -> Any:
    """Returns the targets, a list if there was one array, or names beside names of weights."""
    if hasattr(y, "shape"):
        return [y] * len(names)
    if isinstance(weights, Mapping) and isinstance(y, Mapping) and set(y) == set(names):
        return [y[name] for name in names]
    return y


def _validation(data: Any, names: list[str]) -> Any:
    """Returns the data of a validation with the target of each output."""
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        return data
    x, y, *weights = data
    targets = _targets(y, weights[0] if weights else None, names)
    return data if targets is y else (x, targets, *weights)


def _losses_of_some_outputs(call: Call) -> bool:
    """Gives the outputs that a dictionary of losses lacks no loss."""
    names = _output_names(call.owner)
    loss = call.args[1] if len(call.args) > 1 else call.kwargs.get("loss")
    if not isinstance(loss, Mapping) or not set(loss) < set(names):
        return False
    call.args = call.args[:1] + call.args[2:]
    call.kwargs["loss"] = {name: loss.get(name) for name in names}
    return True


SPELLINGS = (
    Spelling(
        name="`fit(x, y)` with one target of several outputs, `fit(x, {name: target}, "
        "sample_weight={name: weights})`",
        keras_2="One array was the target of each output; targets and weights had names.",
        here="It is so.",
        rewrites=MappingProxyType({patch: _targets_of(patch.name) for patch in _METHODS}),
    ),
    Spelling(
        name="`compile(loss={name: loss})` with the losses of some outputs",
        keras_2="The other outputs had no loss.",
        here="They have none.",
        rewrites=MappingProxyType({patches.COMPILATION: _losses_of_some_outputs}),
    ),
)
