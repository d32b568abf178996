"""The sources of the package as tests read them; what several tests need is kept.

To parse all modules takes seconds. So tests look for candidates in the text, and parse those alone.
"""

import functools
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "ipu_tf"

LONG_STRING = re.compile(r'""".*?"""', re.DOTALL)
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>\S+)[ \t]+import[ \t]*(?P<names>\([^)]*\)|[^(\n]+)"
    r"|import[ \t]+(?P<modules>[^\n]+))",
    re.MULTILINE,
)
COMMENT = re.compile(r"#.*")


def paths(package=PACKAGE):
    """Every module of a package, sorted."""
    return sorted(package.rglob("*.py"))


def statements(body):
    """Yields the statements of a body and those within them: a tenth of the nodes of its tree."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, ()))


def imports_of(text):
    """The `import`s of a text, in functions and for types, too: (module or None, names)."""
    found = []
    for match in IMPORT.finditer(LONG_STRING.sub('""', text)):
        listed = COMMENT.sub("", match["names"] or match["modules"]).strip("() \t\n")
        names = tuple(name.split()[0] for name in listed.split(",") if name.strip())
        found.append((match["module"], names))
    return tuple(found)


@functools.cache
def imported(path):
    """The `import`s of a file, as `imports_of` returns them."""
    found = imports_of(path.read_text())
    assert not any(module and module.startswith(".") for module, _ in found), f"{path}: relative"
    return found
