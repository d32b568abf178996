"""Import hooks for the vendor's module names."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

from ipu_tf.compat.later_finders import call_around, later_spec
from ipu_tf.compat.modules import HOSTS, short_name

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType


class _VendorFinder:
    """Finds the vendor's modules where no other finder does, and makes them."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if short_name(name) is None:
            return None
        # No base class: the module of `Loader` loads milliseconds of others.
        return ModuleSpec(name, cls, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        from ipu_tf.compat.facade import VendorModule

        return VendorModule(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Leaves the module empty: its names are looked up when they are used."""


class _KerasHook:
    """Gives each module of Keras its attribute `ipu` once it has run."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in HOSTS:
            return None
        spec = later_spec(cls, name, path, target)
        if spec is not None:
            call_around(spec, cls._execute_and_attach)
        return spec

    @staticmethod
    def _execute_and_attach(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        execute(module)
        _attach(module)


def install() -> None:
    """Makes the vendor's module names importable, for this process; a second call does nothing."""
    if installed():
        return
    sys.meta_path.insert(0, _KerasHook)
    # Last: a real package of one of the names is found first.
    sys.meta_path.append(_VendorFinder)
    for name in HOSTS:
        if name in sys.modules:
            _attach(sys.modules[name])


def uninstall() -> None:
    """Takes the names away again; modules that a script holds already go on working."""
    if not installed():
        return
    sys.meta_path.remove(_KerasHook)
    sys.meta_path.remove(_VendorFinder)
    forget_modules()


def forget_modules(*, but: tuple[str, ...] = ()) -> None:
    """Takes the vendor's modules out of the import system; those that a script holds go on.

    Args:
        but: Beginnings of the names of modules that stay.
    """
    for name, module in tuple(sys.modules.items()):
        if but and name.startswith(but):
            continue
        if getattr(getattr(module, "__spec__", None), "loader", None) is _VendorFinder:
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            if vars(sys.modules.get(parent, sys)).get(last) is module:
                delattr(sys.modules[parent], last)


def installed() -> bool:
    """Returns whether the vendor's module names are importable through this package."""
    return _VendorFinder in sys.meta_path


def _attach(module: ModuleType) -> None:
    if not hasattr(module, "ipu"):
        __import__(f"{module.__name__}.ipu")  # The import system sets the attribute.
