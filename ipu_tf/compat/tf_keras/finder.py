"""Modules and names of Keras 2.6 that the public modules of tf_keras lack.

This file is loaded at the start of every Python whose environment has Keras 2 enabled: it imports
little.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ModuleSpec

from ipu_tf.compat.later_finders import call_around, later_spec
from ipu_tf.compat.tf_keras.places import TREE, source_of

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

_LOOKUP = "__getattr__"
_BELOW = f"{TREE}."
_OF_THE_VENDOR = "ipu"


class EarlierModules:
    """Finds modules of Keras 2.6 in the sources of tf_keras, and calls a function for the tree.

    Args:
        then: Called with the tree, once it has run or at once; returns what takes that back.
    """

    def __init__(self, then: Callable[[ModuleType], Callable[[], None]]) -> None:
        self._then = then
        self._undo: list[Callable[[], None]] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of the tree, or of a module that it lacks; None for any other."""
        if name == TREE:
            spec = later_spec(self, name, path, target)
            if spec is not None:
                call_around(spec, self._execute_and_adapt)
            return spec
        path_below = name.removeprefix(_BELOW)
        if (
            path_below == name
            or path_below.partition(".")[0] == _OF_THE_VENDOR
            or _is_public(path_below)
        ):
            return None
        # No base class of the loader: `create_module` and `exec_module` are all it needs.
        return ModuleSpec(name, self) if source_of(path_below) else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leaves the module to the import system."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Puts a module of the sources in the place of one of Keras 2.6."""
        place = source_of(module.__name__.removeprefix(_BELOW))
        if place is not None:
            sys.modules[module.__name__] = importlib.import_module(place)

    def install(self) -> Callable[[], None]:
        """Finds modules until the function that it returns is called."""
        # First: the import system would load modules of the sources once more by other names.
        sys.meta_path.insert(0, self)
        try:
            if TREE in sys.modules:
                self._adapt(sys.modules[TREE])
        except BaseException:
            self._uninstall()
            raise
        return self._uninstall

    def _uninstall(self) -> None:
        sys.meta_path.remove(self)
        while self._undo:
            self._undo.pop()()

    def _execute_and_adapt(self, execute: Callable[[ModuleType], None], tree: ModuleType) -> None:
        execute(tree)
        self._adapt(tree)

    def _adapt(self, tree: ModuleType) -> None:
        for name, module in tuple(sys.modules.items()):
            if f"{name}.".startswith(_BELOW) and _LOOKUP not in vars(module):
                path_below = name.removeprefix(TREE).removeprefix(".")
                if module.__name__ == name and path_below.partition(".")[0] != _OF_THE_VENDOR:
                    setattr(module, _LOOKUP, _lookup(name, path_below))
                    self._undo.append(_removal(module))
        self._undo.append(self._forget)
        self._undo.append(self._then(tree))

    def _forget(self) -> None:
        """Takes the modules of Keras 2.6 out of the tree."""
        for name in [one for one in sys.modules if one.startswith(_BELOW)]:
            module = sys.modules[name]
            if module.__name__ == name:
                continue
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            holder = sys.modules.get(parent, sys)
            if holder.__name__ == parent and vars(holder).get(last) is module:
                delattr(holder, last)


def _is_public(path_below: str) -> bool:
    """Returns whether the tree has a module of its own."""
    tree = sys.modules.get(TREE)
    folders = getattr(tree, "__path__", ())
    path = path_below.replace(".", os.sep)
    return any(
        os.path.exists(os.path.join(folder, path, "__init__.py"))
        or os.path.exists(os.path.join(folder, f"{path}.py"))
        for folder in folders
    )


def _removal(module: ModuleType) -> Callable[[], None]:
    return lambda: delattr(module, _LOOKUP)


def _lookup(name: str, path_below: str) -> Callable[[str], object]:
    """Returns the function that looks up a name that a module of the tree lacks."""

    def look_up(attribute: str) -> object:
        if attribute == "__version__" and not path_below:
            return importlib.import_module("tf_keras").__version__
        if not attribute.startswith("__"):
            below = f"{name}.{attribute}"
            try:
                return importlib.import_module(below)
            except ModuleNotFoundError as error:
                if error.name != below:
                    raise
            source = source_of(path_below) if path_below else None
            if source is not None:
                module = importlib.import_module(source)
                if hasattr(module, attribute):
                    return getattr(module, attribute)
        message = f"module {name!r} has no attribute {attribute!r}"
        raise AttributeError(message, name=attribute, obj=sys.modules.get(name))

    return look_up
