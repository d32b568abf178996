"""Marks the time in which a model is written to files, or its weights are read, as spans."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from ipu_tf import spans


def _marked(name: str) -> Callable[..., Any]:
    """Returns Keras' method of that name as a span."""

    @functools.wraps(getattr(keras.Model, name))
    def call(self: MarkedFiles, *args: Any, **kwargs: Any) -> Any:
        with spans.span(f"{self.name}.{name}", "checkpoint"):
            return getattr(super(MarkedFiles, self), name)(*args, **kwargs)

    return call


class MarkedFiles(keras.Model):
    """A model whose files are written and read as spans of the host timeline."""

    save = _marked("save")
    save_weights = _marked("save_weights")
    load_weights = _marked("load_weights")
    export = _marked("export")
