"""Names and modules of Keras 2 that the modules of Keras 3 lack."""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ipu_tf.compat.later_finders import call_around, later_spec
from ipu_tf.compat.modules import KERAS_HOSTS
from ipu_tf.compat.spellings.loading import Keras2Finder
from ipu_tf.compat.spellings.spelling import Notices, Notify, Provider, Spelling

Names = Mapping[str, tuple[Provider, Notify]]

_LOOKUP = "__getattr__"
_SOURCES = "keras.src"


class ModuleNames:
    """Gives the modules of Keras their names of Keras 2, and takes them away again.

    Keras has three trees of modules: `keras`, and two with the names of `tf.keras`. A name is
    looked up when it is used; an object of Keras 3 that has it and only raises steps aside.

    Args:
        spellings: The spellings.
        notices: Logs the first use of each.
    """

    def __init__(self, spellings: Sequence[Spelling], notices: Notices) -> None:
        names: dict[str, dict[str, tuple[Provider, Notify]]] = defaultdict(dict)
        replaced: dict[str, set[str]] = defaultdict(set)
        for spelling in spellings:
            for module, of_module in spelling.names.items():
                notify = notices.of(spelling) if spelling.notes_names else _nothing
                names[module] |= {name: (provide, notify) for name, provide in of_module.items()}
                replaced[module] |= {*of_module} if spelling.replaces_names else set()
        self._names: Mapping[str, Names] = names
        self._replaced: Mapping[str, set[str]] = replaced
        self._stock: list[tuple[ModuleType, dict[str, Any]]] = []

    def are_in(self, name: str) -> bool:
        """Returns whether a module, or one in it, has names of Keras 2."""
        short = _short(name)
        # All names are below the root.
        return short is not None and any(
            module == short or not short or module.startswith(f"{short}.") for module in self._names
        )

    def add_to(self, module: ModuleType) -> None:
        """Gives a module its names."""
        short = _short(module.__name__)
        if short is None or not self.are_in(module.__name__) or _is_source(module):
            return
        stock = {name: vars(module)[name] for name in self._replaced[short] & {*vars(module)}}
        for name in stock:
            delattr(module, name)
        setattr(module, _LOOKUP, self._lookup(module, short))
        self._stock.append((module, stock))

    def remove(self) -> None:
        """Takes the names from all modules."""
        for module, stock in self._stock:
            vars(module).pop(_LOOKUP, None)
            vars(module).update(stock)
        self._stock.clear()

    def _lookup(self, module: ModuleType, short: str) -> Callable[[str], Any]:
        names = self._names.get(short, {})
        prefix = f"{short}." if short else ""
        below = {
            name.removeprefix(prefix).partition(".")[0]
            for name in self._names
            if name.startswith(prefix) and name != short
        }

        def look_up(name: str) -> Any:
            if name in names:
                provide, notify = names[name]
                notify()
                return provide()
            if name in below:
                return importlib.import_module(f"{module.__name__}.{name}")
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        return look_up


class NamesOfKeras2Finder(Keras2Finder):
    """Gives modules of Keras their names once they have run, and makes those of Keras 2 alone."""

    def __init__(self, names: ModuleNames) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module that has names of Keras 2, None for any other module."""
        if not self._names.are_in(name):
            return None
        spec = later_spec(self, name, path, target)
        if spec is not None:
            call_around(spec, self._execute_and_add)
        else:
            # No base class of the loader: `create_module` and `exec_module` are all it needs.
            spec = ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leaves the module to the import system."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Gives a made module its names: it has nothing else."""
        self._names.add_to(module)

    def _execute_and_add(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        execute(module)
        self._names.add_to(module)


def forget_modules_of(finder: NamesOfKeras2Finder) -> None:
    """Removes the modules that a finder made."""
    for name, module in tuple(sys.modules.items()):
        if getattr(getattr(module, "__spec__", None), "loader", None) is finder:
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            if vars(sys.modules.get(parent, sys)).get(last) is module:
                delattr(sys.modules[parent], last)


def _nothing() -> None:
    """Logs nothing."""


def _is_source(module: ModuleType) -> bool:
    """Returns whether Keras is written in a module: it uses the names there as they are."""
    is_below = f"{module.__name__}.".startswith(f"{_SOURCES}.")
    return is_below and getattr(module, "__file__", None) is not None


def _short(name: str) -> str | None:
    """Returns the name of a module of Keras relative to its tree, None for any other module."""
    for host in sorted((*KERAS_HOSTS, _SOURCES), key=len, reverse=True):
        if name == host:
            return ""
        if name.startswith(f"{host}."):
            return name.removeprefix(f"{host}.")
    return None
