"""Names that a module defines, found in its text, without running it."""

from __future__ import annotations

import ast
import sys
from importlib.machinery import PathFinder, SourceFileLoader
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
    found: set[str] = set()
    for node in ast.walk(ast.parse(text, file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and node.attr in _ADD_NAMES:
            return None
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
    return None if found & {*_ADD_NAMES, "*"} else frozenset(found)


def module_file(name: str) -> Path | None:
    """Returns the file of a module that is not loaded, None for a package or where it is unclear.

    Nothing is loaded, unlike by `importlib.util.find_spec`, which loads the packages around it.
    """
    path, spec = None, None
    parts = name.split(".")
    if not all(map(str.isidentifier, parts)):
        return None
    for count in range(1, len(parts) + 1):
        whole = ".".join(parts[:count])
        if whole in sys.modules and count == len(parts):
            return None
        try:
            spec = PathFinder.find_spec(whole, path)
            path = None if spec is None else [*(spec.submodule_search_locations or ())]
        except KeyError:  # A package without a file, whose path depends on that of another.
            return None
        if spec is None:
            return None
    if spec is None or path or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
        return None
    return Path(spec.origin)
