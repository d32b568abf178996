"""Names that a module defines, found in its text, without running it."""

from __future__ import annotations

import ast
import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path

_ADD_NAMES = frozenset(
    ("globals", "locals", "vars", "exec", "setattr", "__getattr__", "__dict__", "f_globals")
) | {"modules"}  # As in `sys.modules[__name__]`.
"""Names by whose use a module may get names that its text does not define."""


def defined_names(text: str | bytes, file: str) -> frozenset[str] | None:
    """Returns the names that a text may define, at any place in it; None if the text cannot tell.

    Args:
        text: The text of a module.
        file: Its file, for errors.

    Raises:
        SyntaxError: The text is not Python.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(text, file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and node.attr in _ADD_NAMES:
            return None
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return None if names & {*_ADD_NAMES, "*"} else frozenset(names)


def module_file(name: str) -> Path | None:
    """Returns the file of a module or package that is not loaded, None where it is unclear.

    Nothing is loaded, unlike by `importlib.util.find_spec`, which loads the packages around it.
    """
    try:
        spec = None if name in sys.modules else _spec(name)
    except KeyError:
        return None
    if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
        return None
    return Path(spec.origin)


def names_of_module(name: str) -> frozenset[str] | None:
    """Returns the names that a module may have, modules inside of it too; None where unclear."""
    file = module_file(name)
    names = None if file is None else defined_names(file.read_bytes(), str(file))
    if names is None or file is None or file.name != "__init__.py":
        return names
    return names | {path.stem.partition(".")[0] for path in file.parent.iterdir()}


def is_missing(name: str) -> bool:
    """Returns whether a module is known not to exist, from the texts of the packages around it."""
    first, *inner_names = parts = name.split(".")
    if not all(map(str.isidentifier, parts)) or first in sys.modules:
        return False
    if importlib.util.find_spec(first) is None:  # Loads nothing: no package is around it.
        return True
    package = first
    try:
        for part in inner_names:
            if not _is_closed(package):
                return False
            package = f"{package}.{part}"
            if _spec(package) is None:
                return True
    except KeyError:
        pass
    return False


def _is_closed(package: str) -> bool:
    """Returns whether the modules of a package are the files of its folder, and no others."""
    spec = _spec(package)
    if spec is not None and spec.origin is None:  # A folder without an `__init__.py`.
        return True
    file = module_file(package)
    if file is None or file.name != "__init__.py":
        return False
    names = defined_names(file.read_bytes(), str(file))
    return names is not None and "__path__" not in names


def _spec(name: str) -> ModuleSpec | None:
    """Returns how a module is loaded, None if it is not found on the path.

    Raises:
        KeyError: It is in a folder without an `__init__.py`, whose path depends on another package.
    """
    path, spec = None, None
    parts = name.split(".")
    if not all(map(str.isidentifier, parts)):
        return None
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), path)
        if spec is None:
            return None
        path = [*(spec.submodule_search_locations or ())]
    return spec
