"""Keras' download function, wherever it has been imported to, and what reads its weights."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import keras

# The loaders of data sets take the function from here, each into its own module.
from keras.src.utils import file_utils

_NAME = "get_file"
_READER = "load_weights"

Download = Callable[..., str]


@contextlib.contextmanager
def replaced_downloads(wrap: Callable[[Download], Download]) -> Iterator[None]:
    """Replaces `keras.utils.get_file` in every module that has it, and puts it back."""
    stock = file_utils.get_file
    replacement = wrap(stock)
    _replace_everywhere(stock, replacement)
    try:
        yield
    finally:
        # Also in modules that were imported in between.
        _replace_everywhere(replacement, stock)


@contextlib.contextmanager
def replaced_readers(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replaces `keras.Model.load_weights`, also where it is replaced already; puts it back."""
    stock = keras.Model.load_weights
    setattr(keras.Model, _READER, wrap(stock))
    try:
        yield
    finally:
        setattr(keras.Model, _READER, stock)


def _replace_everywhere(old: Download, new: Download) -> None:
    for module in tuple(sys.modules.values()):
        if _attributes(module).get(_NAME) is old:
            setattr(module, _NAME, new)


def _attributes(module: Any) -> dict[str, Any]:
    return vars(module) if isinstance(module, ModuleType) else {}
