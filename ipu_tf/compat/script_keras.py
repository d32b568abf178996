"""Which Keras a script is written for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_OURS = "ipu_tf"
_NAMES = f"{_OURS}.compat"
"""What any script may import, to install the vendor's names."""


def keras_of(source: str | bytes) -> int:
    """Returns 3 for a script that imports ipu_tf by its name, and 2 for any other.

    Args:
        source: The text of the script. What the modules that it imports say does not count.

    Raises:
        SyntaxError: It is not Python.
    """
    names = (name for node in ast.walk(ast.parse(source)) for name in _import_names(node))
    return 3 if any(_is_below(name, _OURS) and not _is_below(name, _NAMES) for name in names) else 2


def _import_names(node: ast.AST) -> Iterator[str]:
    """Yields the full names of what a statement imports."""
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{one.name}" for one in node.names)


def _is_below(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")
