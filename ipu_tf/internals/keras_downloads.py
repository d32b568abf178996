"""Keras' download function, wherever it has been imported to."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

# The loaders of data sets take the function from here, each into its own module.
from keras.src.utils import file_utils

_NAME = "get_file"

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


def _replace_everywhere(old: Download, new: Download) -> None:
    for module in tuple(sys.modules.values()):
        if _attributes(module).get(_NAME) is old:
            setattr(module, _NAME, new)


def _attributes(module: Any) -> dict[str, Any]:
    return vars(module) if isinstance(module, ModuleType) else {}
