"""The page on the architecture lists every method of TensorFlow and Keras that is replaced."""

import ast
import functools
import re
from pathlib import Path

import pytest

from ipu_tf.internals import patches

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ipu_tf"
PAGE = ROOT / "docs" / "architecture.md"
KERAS_2 = Path("compat/keras2")
STRANGERS = ("tensorflow", "keras", "ipu_tf.internals.tensorflow", "ipu_tf.internals.keras")


def assigned_methods(text):
    """The attributes of TensorFlow's and Keras' modules and classes that a source text assigns."""
    tree = ast.parse(text)
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = {(one.asname or one.name): one.name for one in node.names}
            names |= {name: name for name, module in found.items() if module in STRANGERS}
        elif isinstance(node, ast.ImportFrom) and node.module in STRANGERS:
            names |= {(one.asname or one.name): one.name for one in node.names}
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    for node in assignments:  # Short names that stand for an attribute.
        (target, *_), value = node.targets, node.value
        if isinstance(target, ast.Name) and isinstance(value, ast.Attribute):
            root, *_ = ast.unparse(value).split(".")
            if root in names:
                names.setdefault(target.id, ast.unparse(value))
    targets = [target for node in assignments for target in node.targets]
    assigned = set()
    for target in targets:
        if isinstance(target, ast.Attribute):
            root, _, rest = ast.unparse(target).partition(".")
            if root in names:
                assigned.add(f"{names[root]}.{rest}")
    return assigned


@functools.cache
def users():
    """The modules that use each name of `patches`."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for name in set(re.findall(r"\bpatches\.([A-Z][A-Z_0-9]*)\b", path.read_text())):
            found.setdefault(name, []).append(path.relative_to(PACKAGE))
    return found


def users_of(name):
    """The modules that replace the methods of a name in `patches`."""
    # Several spellings of Keras 2 may need one method; their table brings them together.
    return sorted(
        {str(KERAS_2 / "table.py" if path.parent == KERAS_2 else path) for path in users()[name]}
    )


def rows():
    """Each listed method with its reason and the file that replaces it."""
    found = re.findall(r"^\| (`.*`) \| (.*) \| `(.*\.py)` \|$", PAGE.read_text(), re.MULTILINE)
    return {
        (method, reason, file)
        for methods, reason, file in found
        for method in re.findall(r"`([^`]+)`", methods)
    }


def test_every_replaced_method_is_listed():
    names = {name: value for name, value in vars(patches).items() if name.isupper()}
    expected = set()
    for name, value in names.items():
        group = {patches.Patch: lambda one: (one,), tuple: tuple}.get(type(value))
        if group is not None and name != "TABLE":
            (file,) = users_of(name)
            expected |= {(str(patch), patch.reason, file) for patch in group(value)}
    assert len(expected) == len(patches.TABLE)
    assert rows() == expected


def test_methods_are_replaced_by_the_table_alone():
    assigned = {
        str(path.relative_to(PACKAGE)): assigned_methods(path.read_text())
        for path in PACKAGE.rglob("*.py")
    }
    assert {path: methods for path, methods in assigned.items() if methods} == {}


@pytest.mark.parametrize(
    ("text", "methods"),
    [
        ("import keras\nkeras.Model.__new__ = f", {"keras.Model.__new__"}),
        (
            "from ipu_tf.internals.tensorflow import FuncGraph as G\nG.init = f",
            {"FuncGraph.init"},
        ),
        (
            "from ipu_tf.internals.keras import c\ng = c.Graph\ng.capture = f",
            {"c.Graph.capture"},
        ),
        ("import keras\nmodel = keras.Model()\nmodel.name = 3", set()),
        ("import tensorflow as tf\nself.x = tf.float32", set()),
    ],
)
def test_the_check_sees_what_is_replaced(text, methods):
    assert assigned_methods(text) == methods
