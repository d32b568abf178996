"""Specs of modules from the finders after one, with a call after the module has run.

This file is loaded at the start of every Python whose environment has the aliases enabled: it
imports little.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def later_spec(
    finder: object, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    """Returns the spec of a module that the finders after one in `sys.meta_path` have.

    A finder that asked all others would be asked by them in turn, without end.
    """
    for later in sys.meta_path[sys.meta_path.index(finder) + 1 :]:  # type: ignore[arg-type]
        spec = later.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def call_around(
    spec: ModuleSpec, around: Callable[[Callable[[ModuleType], None], ModuleType], None]
) -> None:
    """Makes a function execute a module: it gets the loader's own function and the module."""
    loader = spec.loader
    if loader is None:
        return
    execute = loader.exec_module
    # On this loader alone, which loads this module alone.
    vars(loader)["exec_module"] = lambda module: around(execute, module)
