"""`tf.compat.v1.layers` and `tf.compat.v1.nn.rnn_cell`: layers of graphs of TensorFlow 1."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from ipu_tf.compat.keras2 import graph_batch_normalization
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals import graph_layers

_OWN: Mapping[str, tuple[ModuleType, ...]] = MappingProxyType(
    {"layers": (graph_batch_normalization,)}
)
"""Modules here with what TensorFlow has no longer."""


class _GraphLayers(ModuleType):
    """A module with the public names of others.

    Args:
        name: Its name.
        sources: The modules that have the names.
        notify: Logs the first use.
    """

    def __init__(self, name: str, sources: tuple[ModuleType, ...], notify: Notify) -> None:
        super().__init__(name)
        self._sources = sources
        self._notify = notify

    def __getattr__(self, name: str) -> Any:
        for source in self._sources if not name.startswith("_") else ():
            if hasattr(source, name):
                self._notify()
                return getattr(source, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


@contextlib.contextmanager
def _in_their_places(notify: Notify) -> Iterator[None]:
    """Gives `tf.compat.v1` its layers and its cells."""
    with contextlib.ExitStack() as stack:
        for module, attribute, sources in graph_layers.PLACES:
            stock = getattr(module, attribute)
            stack.callback(setattr, module, attribute, stock)
            name = f"{module.__name__}.{attribute}"
            own = _OWN.get(attribute, ())
            setattr(module, attribute, _GraphLayers(name, (*own, *sources), notify))
        yield


SPELLINGS = (
    Spelling(
        name="`tf.compat.v1.layers`, `tf.compat.v1.nn.rnn_cell`",
        keras_2="Layers and cells whose variables are those of `get_variable`.",
        here="They are TensorFlow's own, which it holds back beside Keras 3; batch normalization, "
        "which it lacks, is written anew, without `renorm`.",
        context=_in_their_places,
    ),
)
