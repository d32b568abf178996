"""The page on the architecture lists every method of TensorFlow and Keras that a run replaces."""

import ast
import functools
import re
from pathlib import Path

import pytest

from ipu_tf.internals import patches
from tests import sources

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ipu_tf"
PAGE = ROOT / "docs" / "architecture.md"
STRANGERS = ("tensorflow", "keras", "ipu_tf.internals.tensorflow", "ipu_tf.internals.keras")
ASSIGNED_ATTRIBUTE = re.compile(r"(?<!\bself)(?<!\bcls)\.\w+ =(?!=)")


def assigned_methods(text):
    """The attributes of TensorFlow's and Keras' modules and classes that a source text assigns."""
    uses_strangers = any(f"import {name}" in text or f"from {name}" in text for name in STRANGERS)
    if not uses_strangers or not ASSIGNED_ATTRIBUTE.search(text):
        return set()
    nodes = list(sources.statements(ast.parse(text).body))
    names = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            found = {(one.asname or one.name): one.name for one in node.names}
            names |= {name: name for name, module in found.items() if module in STRANGERS}
        elif isinstance(node, ast.ImportFrom) and node.module in STRANGERS:
            names |= {(one.asname or one.name): one.name for one in node.names}
    assignments = [node for node in nodes if isinstance(node, ast.Assign)]
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
        text = path.read_text()
        if "from ipu_tf.internals import patches" not in text:
            continue
        for name in set(re.findall(r"\bpatches\.([A-Z][A-Z_0-9]*)\b", text)):
            found.setdefault(name, []).append(path.relative_to(PACKAGE))
    return found


def rows():
    """Each listed method with its reason and the file that replaces it."""
    found = re.findall(r"^\| (`.*`) \| (.*) \| `(.*\.py)` \|$", PAGE.read_text(), re.MULTILINE)
    return {
        (method, reason, file)
        for methods, reason, file in found
        for method in re.findall(r"`([^`]+)`", methods)
    }


def test_every_replaced_method_is_listed():
    expected = set()
    for name, value in vars(patches).items():
        if not (name.isupper() and name[0].isalpha()):
            continue
        (file,) = users()[name]
        group = value if isinstance(value, tuple) else (value,)
        expected |= {(str(patch), patch.reason, str(file)) for patch in group}
    assert len(expected) == len([*patches.patches_of(patches)])
    assert rows() == expected
    assert not any(file.startswith("compat/") for _, _, file in expected)


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
