"""Sizes of layers as Keras 2 took them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Spelling
from ipu_tf.internals.patches import Patch

_SIZE_ARGUMENTS = tuple(
    Patch(owner, "__init__", "sizes may be NumPy numbers")
    for owner in (
        keras.layers.Dense,
        keras.layers.GroupNormalization,
        keras.layers.MultiHeadAttention,
        keras.layers.RepeatVector,
        keras.layers.UpSampling1D,
    )
)

_UNITS = "units"


def _python_numbers(call: Call) -> bool:
    """Makes NumPy numbers those of Python, and the width of a `Dense` a whole number."""
    args = tuple(_python_number(value) for value in call.args)
    kwargs = {name: _python_number(value) for name, value in call.kwargs.items()}
    if isinstance(call.owner, keras.layers.Dense):
        if args and isinstance(args[0], float):
            args = (int(args[0]), *args[1:])
        if isinstance(kwargs.get(_UNITS), float):
            kwargs[_UNITS] = int(kwargs[_UNITS])
    pairs = (*zip(args, call.args, strict=True), *((kwargs[n], call.kwargs[n]) for n in kwargs))
    is_keras_2 = any(new is not given for new, given in pairs)
    call.args, call.kwargs = args, kwargs
    return is_keras_2


def _python_number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


SPELLINGS = (
    Spelling(
        name="`Dense(np.max(labels) + 1)`, `Embedding(np.int64(9), 8)`, `Dense(n / 2)`, NumPy "
        "numbers as sizes",
        keras_2="They were numbers; the width of a `Dense` was rounded down.",
        here="They are; Keras 3 alone takes whole numbers of Python.",
        rewrites=MappingProxyType(
            dict.fromkeys((*_SIZE_ARGUMENTS, patches.EMBEDDING_ARGUMENTS), _python_numbers)
        ),
    ),
)
