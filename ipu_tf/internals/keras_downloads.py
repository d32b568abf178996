"""The download functions of Keras, wherever they have been imported to, and what reads weights."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import keras

# The loaders of data sets take the function from here, each into its own module.
from keras.src.utils import file_utils

from ipu_tf.internals.keras_choice import may_use_tf_keras

_NAME = "get_file"
_READER = "load_weights"
_OF_TF_KERAS = "tf_keras.src.utils.data_utils"  # The same of tf_keras, which may not be there.

Download = Callable[..., str]
Reader = Callable[..., object]


@contextlib.contextmanager
def replaced_downloads(wrap: Callable[[Download], Download]) -> Iterator[None]:
    """Replaces `keras.utils.get_file` in every module that has it, and puts it back.

    Also that of tf_keras, if `tf.keras` is it or something has imported it.
    """
    with contextlib.ExitStack() as stack:
        modules = [file_utils]
        if may_use_tf_keras():
            modules.append(importlib.import_module(_OF_TF_KERAS))
        for module in modules:
            stock = module.get_file
            replacement = wrap(stock)
            _replace_everywhere(stock, replacement)
            # Also in modules that were imported in between.
            stack.callback(_replace_everywhere, replacement, stock)
        yield


@contextlib.contextmanager
def replaced_readers(wrap: Callable[[Reader], Reader]) -> Iterator[None]:
    """Replaces `Model.load_weights`, also where it is replaced already; puts it back."""
    with contextlib.ExitStack() as stack:
        models = [keras.Model]
        if may_use_tf_keras():
            models.append(importlib.import_module("tf_keras").Model)
        for model in models:
            stock = getattr(model, _READER)
            setattr(model, _READER, wrap(stock))
            stack.callback(setattr, model, _READER, stock)
        yield


def _replace_everywhere(old: Download, new: Download) -> None:
    for module in tuple(sys.modules.values()):
        if _attributes(module).get(_NAME) is old:
            setattr(module, _NAME, new)


def _attributes(module: object) -> dict[str, object]:
    return vars(module) if isinstance(module, ModuleType) else {}
