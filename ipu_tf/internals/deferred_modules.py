"""Modules that Keras imports for features that commands do not use, loaded at their first use.

Keras imports scikit-learn and SciPy for its wrappers, Matplotlib for its galleries of images, and
pandas to know data frames, where they are installed: together a third of the start of a command.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

DEFERRED = frozenset(
    {
        "keras.wrappers",
        "keras._tf_keras.keras.wrappers",
        "keras.visualization",
        "keras._tf_keras.keras.visualization",
        "keras.src.visualization",
        "keras.src.trainers.data_adapters.array_slicing",
    }
)
"""Each imports scikit-learn with SciPy, Matplotlib, or pandas; Keras does no more than name it."""

_LOCK = threading.RLock()


@contextlib.contextmanager
def deferred_modules() -> Iterator[None]:
    """Imports inside, which load Keras, leave the modules above to the first use of their names.

    A module that is not installed is missing, as ever.
    """
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds the modules above, without what runs them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in DEFERRED else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Makes a module that another loader runs later."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Deferred


class _Deferred(ModuleType):
    """A module that runs when one of its names is used."""

    def __getattr__(self, name: str) -> object:
        with _LOCK:
            spec = self.__spec__
            # Its names are looked up while it runs, too: then those are missing that it lacks.
            if spec is not None and isinstance(spec.loader, _Loader):
                spec.loader = self.__loader__ = spec.loader.loader
                spec.loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        return ModuleType.__getattribute__(self, name)
