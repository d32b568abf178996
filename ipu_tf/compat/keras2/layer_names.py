"""Names of layers with a `/`, which Keras 3 refuses."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Spelling


def _without_slash(call: Call) -> bool:
    """Replaces each `/` in the name of a layer; returns whether there was one."""
    found = False
    for name, value in call.kwargs.items():
        if name == "name" and _has_slash(value):
            call.kwargs[name] = value.replace("/", "_")
            found = True
    if call.args and _has_slash(call.args[0]):
        call.args = (call.args[0].replace("/", "_"), *call.args[1:])
        found = True
    return found


def _has_slash(name: Any) -> bool:
    return isinstance(name, str) and "/" in name


SPELLINGS = (
    Spelling(
        name="a `/` in the name of a layer or a model, also for `get_layer`",
        keras_2="The name had it, and so had the names of the weights.",
        here="It becomes `_`.",
        rewrites=MappingProxyType(dict.fromkeys(patches.LAYER_NAMES, _without_slash)),
    ),
)
