"""`tensorflow.python.keras`: where scripts of the vendor's TensorFlow found `tf.keras`.

TensorFlow still has a part of Keras 2 there, for its own layers of graphs. Scripts get `tf.keras`
in its place; TensorFlow's own modules get what they import.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from ipu_tf.compat.spellings.spelling import Notify, Spelling

_PARENT = "tensorflow.python"
_OLD = f"{_PARENT}.keras"
# Attributes of TensorFlow lead from here to `tf.keras`; imports do not.
_PLACES = (_OLD, "tensorflow.compat.v1.keras", "tensorflow.compat.v2.keras")
_KERAS = "tensorflow.keras"
_LIBRARY = "tensorflow"


class _OldPlace(ModuleType):
    """The module of `tensorflow.keras` for one in another of its places.

    Args:
        name: Its name in the old place.
        of: The module of `tensorflow.keras`.
        notify: Logs the first use.
    """

    def __init__(self, name: str, of: ModuleType, notify: Notify) -> None:
        super().__init__(name)
        self._of = of
        self._notify = notify

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [public for public in dir(self._of) if not public.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(name)
        self._notify()
        value = getattr(self._of, name)
        if isinstance(value, ModuleType) and self._below(name) is not None:
            return _OldPlace(f"{self.__name__}.{name}", value, self._notify)
        return value

    def __dir__(self) -> list[str]:
        return dir(self._of)

    def _below(self, name: str) -> ModuleType | None:
        return _of_keras(f"{self.__name__}.{name}")


def _of_keras(name: str) -> ModuleType | None:
    """Returns the module of `tensorflow.keras` for one in another of its places."""
    wanted = _KERAS + name.removeprefix(next(filter(name.startswith, _PLACES)))
    try:
        return importlib.import_module(wanted)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{wanted}.".startswith(f"{error.name}."):
            raise
        return None


@contextlib.contextmanager
def _as_keras(notify: Notify) -> Iterator[None]:
    """Makes `tensorflow.python.keras` the `tf.keras` of scripts."""
    parent = importlib.import_module(_PARENT)
    root = _OldPlace(_OLD, importlib.import_module(_KERAS), notify)
    stock_import, stock_keras = builtins.__import__, importlib.import_module(_OLD)

    def import_module(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        is_keras = f"{name}.".startswith(tuple(f"{place}." for place in _PLACES))
        if is_keras and not level and not _is_library(globals):
            module = _of_keras(name)
            if module is not None:
                notify()
                return _OldPlace(name, module, notify) if fromlist else sys.modules[_LIBRARY]
        return stock_import(name, globals, locals, fromlist, level)

    parent.keras = root  # type: ignore[attr-defined]
    builtins.__import__ = import_module
    try:
        yield
    finally:
        builtins.__import__ = stock_import
        parent.keras = stock_keras  # type: ignore[attr-defined]


def _is_library(importer: Mapping[str, object] | None) -> bool:
    """Returns whether a module of TensorFlow imports."""
    return str((importer or {}).get("__name__", "")).startswith(f"{_LIBRARY}.")


SPELLINGS = (
    Spelling(
        name="`tensorflow.python.keras`, `from tensorflow.compat.v1.keras`",
        keras_2="The modules of `tf.keras`, where they were written.",
        here="Each module is that of `tf.keras`. Modules that `tf.keras` lacks are those of "
        "TensorFlow; their layers and models are no layers and models of Keras.",
        context=_as_keras,
    ),
)
