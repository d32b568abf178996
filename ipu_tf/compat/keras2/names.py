"""Where the names of Keras 2 are found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.missing import Missing
from ipu_tf.compat.spellings.spelling import Provider


def of_both(module: str) -> dict[str, Provider]:
    """Returns the public names of a module in `tf.keras` and in `keras`.

    Each of the two has some that the other lacks.
    """
    found: dict[str, Provider] = {}
    for host in (keras, tf.keras):
        try:
            of_host = _below(host, module)
        except AttributeError:
            continue
        names = (name for name in dir(of_host) if not name.startswith("_"))
        found |= {name: partial(getattr, of_host, name) for name in names}
    return found


def of_python_module(module: ModuleType) -> dict[str, Provider]:
    """Returns the public names of a module."""
    return {name: partial(getattr, module, name) for name in dir(module) if name[0] != "_"}


def given(value: Any) -> Provider:
    """Returns what provides a value that is known already."""
    return partial(lambda known: known, value)


def moved(**names: str) -> dict[str, Provider]:
    """Returns names, each with its place in Keras 3, such as `layers.Dense`."""
    return {name: partial(_below, keras, place) for name, place in names.items()}


def absent(module: str, names: Sequence[str], reason: str) -> dict[str, Provider]:
    """Returns names that exist in Keras 2 alone: their use raises and says why."""
    return {name: partial(Missing, f"{module}.{name}", reason) for name in names}


def _below(module: Any, dotted: str) -> Any:
    return reduce(getattr, dotted.split("."), module)
