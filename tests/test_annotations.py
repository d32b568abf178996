"""Annotations of the package, read from the source with `ast`: where they may say `Any`."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "ipu_tf"

ROOMS_WITHOUT_ANY = ("compiler", "machine", "planner", "profile", "programs", "tile_program")
"""Rooms whose every value has a type."""

TYPED_ROOMS = (
    *ROOMS_WITHOUT_ANY,
    *sorted(
        {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
        - {*ROOMS_WITHOUT_ANY}
    ),
)
"""All rooms and files of the root: their public functions, methods and attributes have one."""


def is_public(name):
    return not name.startswith("_") or name in ("__init__", "__call__")


def says_any(node):
    """Whether an annotation is, or has in it, `Any`."""
    return node is not None and any(
        (isinstance(part, ast.Name) and part.id == "Any")
        or (isinstance(part, ast.Attribute) and part.attr == "Any")
        or (isinstance(part, ast.alias) and part.name == "Any")
        for part in ast.walk(node)
    )


def says_any_in(text):
    """Whether a text has `Any` in its code."""
    return "Any" in text and says_any(ast.parse(text))


def loose_signatures(body, inside=""):
    """Yields the names of public functions, methods, attributes and types with an `Any`."""
    for node in body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        name = getattr(node, "name", target.id if isinstance(target, ast.Name) else "")
        if not name or not is_public(name):
            continue
        if isinstance(node, ast.ClassDef):
            yield from loose_signatures(node.body, f"{inside}{name}.")
        elif any(map(says_any, annotations(node))):
            yield f"{inside}{name}"


def annotations(node):
    if isinstance(node, ast.Assign):
        return [node.value] if isinstance(node.value, ast.Subscript | ast.BinOp) else []
    if isinstance(node, ast.AnnAssign):
        is_alias = ast.unparse(node.annotation) == "TypeAlias"
        return [node.value if is_alias else node.annotation]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    own = node.args
    arguments = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
    return [*(one.annotation for one in arguments if one), node.returns]


def files(room, package=PACKAGE):
    folder = package / room
    found = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    assert found, room
    return found


@pytest.mark.parametrize("room", ROOMS_WITHOUT_ANY)
def test_rooms_of_plain_python_say_any_nowhere(room):
    assert [str(path) for path in files(room) if says_any_in(path.read_text())] == []


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("room", TYPED_ROOMS)
def test_public_signatures_have_types(room):
    found = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in files(room)
        if "Any" in (text := path.read_text())
        for name in loose_signatures(ast.parse(text).body)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(x: dict[str, Any]): pass", ["f"]),
        ("class A:\n def f(self) -> typing.Any: pass\n x: Any", ["A.f", "A.x"]),
        ("class A:\n def __init__(self, *a: Any): pass", ["A.__init__"]),
        ("A = Callable[[Any], int]\nB: TypeAlias = Any", ["A", "B"]),
        ("def _f(x: Any): pass\nclass _A:\n x: Any\ndef f() -> int: x: Any = 1", []),
    ],
)
def test_the_check_sees_loose_signatures(text, names):
    assert list(loose_signatures(ast.parse(text).body)) == names


def test_the_check_sees_an_import():
    assert says_any(ast.parse("from typing import Any, cast"))
