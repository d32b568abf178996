"""`import keras` means tf_keras in scripts, and in the packages that they import.

This file is loaded at the start of every Python whose environment has Keras 2 enabled: it imports
little.
"""

from __future__ import annotations

import builtins
import importlib
from types import SimpleNamespace

from ipu_tf.compat.tf_keras.places import TREE, check_installed, place_of

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

_LIBRARIES = ("ipu_tf", "keras", "tensorflow", "tf_keras")
"""Packages whose modules get what they import."""

_PARENT = "tensorflow.python"
"""The package whose `keras` is a third Keras, that of TensorFlow itself."""


def redirect_imports() -> Callable[[], None]:
    """Gives modules of scripts and of other packages tf_keras for `keras`.

    Returns what takes that back.
    """
    stock_import, stock_module = builtins.__import__, importlib.import_module

    def import_module(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        importer = _caller() if globals is None else globals
        is_ours = level != 0 or _is_library(importer)
        place = None if is_ours else _place(name, stock_module)
        if place is None:
            root = stock_import(name, globals, locals, fromlist or (), level)
            if name == _PARENT and not is_ours and "keras" in (fromlist or ()):
                check_installed()
                return _with_tree(root, fromlist or (), stock_module(TREE))
            return root
        module = stock_module(place)
        if not fromlist:  # `import a.b` binds `a`, in which `b` is found.
            return stock_module(TREE if name.startswith("keras") else "tensorflow")
        for each in fromlist:
            if each != "*" and not hasattr(module, each):
                _load_if_there(f"{place}.{each}", stock_module)
        return module

    def import_named(name: str, package: str | None = None) -> ModuleType:
        is_ours = name.startswith(".") or _is_library(_caller())
        place = None if is_ours else _place(name, stock_module)
        return stock_module(name, package) if place is None else stock_module(place)

    builtins.__import__ = import_module
    importlib.import_module = import_named

    def undo() -> None:
        builtins.__import__, importlib.import_module = stock_import, stock_module

    return undo


def _load_if_there(name: str, load: Callable[[str], ModuleType]) -> None:
    """Loads a module, if there is one of this name."""
    import contextlib  # It costs milliseconds, and this file is loaded at every start.

    with contextlib.suppress(ModuleNotFoundError):
        load(name)


def _with_tree(parent: ModuleType, names: Sequence[str], tree: ModuleType) -> ModuleType:
    """Returns what `from tensorflow.python import keras` and other names beside it read."""
    read = {name: tree if name == "keras" else getattr(parent, name) for name in names}
    return SimpleNamespace(**read)  # type: ignore[return-value]


def _place(name: str, load: Callable[[str], ModuleType]) -> str | None:
    """Returns the place of a module of Keras in tf_keras, None for any other module.

    Modules of `tensorflow.python.keras` that tf_keras lacks are those of TensorFlow.
    """
    place = place_of(name)
    if place is None:
        return None
    check_installed()
    if not name.startswith("tensorflow.python."):
        return place
    try:
        load(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        return None
    return place


def _caller() -> Mapping[str, object] | None:
    """Returns the names of the module that called the function that asks."""
    import inspect  # It costs milliseconds, and this file is loaded at every start.

    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return frame and frame.f_globals


def _is_library(importer: Mapping[str, object] | None) -> bool:
    """Returns whether a module of a library that knows its Keras imports."""
    return str((importer or {}).get("__name__", "")).partition(".")[0] in _LIBRARIES
