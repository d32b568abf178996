"""The sources of the package as tests read them with `ast`; what several tests need is kept."""

import ast
import functools
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "ipu_tf"


def paths(package=PACKAGE):
    """Every module of a package, sorted."""
    return sorted(package.rglob("*.py"))


def statements(body):
    """Yields the statements of a body and those within them: a tenth of the nodes of its tree."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, ()))


@functools.cache
def imported(path):
    """The `import`s of a file, in functions and for types, too: (module or None, names)."""
    found = []
    for node in statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            found.append((None, tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append((node.module, tuple(alias.name for alias in node.names)))
    return tuple(found)
