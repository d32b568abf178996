"""`import tensorflow` as a script for TensorFlow 1 means it."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import tensorflow as tf

_OF_THE_PACKAGE = ("compat", "keras")
"""Names of today's package that are wider than those of TensorFlow 1: Keras has the vendor's."""

_BELOW: Mapping[str, str] = MappingProxyType(
    {
        "compiler": "compiler",
        "python": "python",
        "pywrap_tensorflow": "python.pywrap_tensorflow",
    }
)
"""Modules below `tensorflow` that today are no attributes of it, by their names in TensorFlow 1."""

_RELEASE = "1.15.5"
"""The release of TensorFlow 1 that the vendor's were built from."""

_LIBRARIES = ("site-packages", "dist-packages")
_FOLDERS = (
    Path(__file__).resolve().parents[2],
    *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")),
)


class TensorFlow1(ModuleType):
    """The module `tensorflow` with the names of TensorFlow 1, then those of today."""

    __version__ = VERSION = _RELEASE

    def __getattr__(self, name: str) -> Any:
        if name in _BELOW:
            return importlib.import_module(f"{tf.__name__}.{_BELOW[name]}")
        for module in (tf,) if name in _OF_THE_PACKAGE else (tf.compat.v1, tf):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self
        )

    def __dir__(self) -> list[str]:
        return sorted({*dir(tf.compat.v1), *dir(tf)})


@contextlib.contextmanager
def imported_by_scripts() -> Iterator[None]:
    """Gives modules of scripts TensorFlow 1 for `import tensorflow`.

    Installed libraries, such as Keras, import the TensorFlow that they are written for, so the
    importing module decides.
    """
    stock, interface = builtins.__import__, TensorFlow1(tf.__name__, tf.__doc__)

    def import_module(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        module = stock(name, globals, locals, fromlist or (), level)
        return interface if module is tf and _is_of_script(globals or {}) else module

    builtins.__import__ = import_module
    try:
        yield
    finally:
        builtins.__import__ = stock


def _is_of_script(names: Mapping[str, object]) -> bool:
    """Returns whether a module with these names is neither installed nor a part of Python."""
    file = names.get("__file__")
    if not isinstance(file, str):
        return True
    path = Path(file).resolve()
    if any(part in _LIBRARIES for part in path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _FOLDERS)
