"""The page on the architecture lists every method of TensorFlow and Keras that is wrapped."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ipu_tf"
PAGE = ROOT / "docs" / "architecture.md"
STRANGERS = ("tensorflow", "keras", "ipu_tf._private")


def wrapped_methods(text):
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
    wrapped = set()
    for target in targets:
        if isinstance(target, ast.Attribute):
            root, _, rest = ast.unparse(target).partition(".")
            if root in names:
                wrapped.add(f"{names[root]}.{rest}")
    return wrapped


def listed_methods():
    """Each wrapped method of the page with the file that it names."""
    rows = re.findall(r"^\| (`.*`) \| .* \| `(.*\.py)` \|$", PAGE.read_text(), re.MULTILINE)
    return {
        (method, file) for methods, file in rows for method in re.findall(r"`([^`]+)`", methods)
    }


def test_every_wrapped_method_is_listed():
    wrapped = {
        (method, str(path.relative_to(PACKAGE)))
        for path in PACKAGE.rglob("*.py")
        for method in wrapped_methods(path.read_text())
    }
    assert len(wrapped) > 5
    assert listed_methods() == wrapped


@pytest.mark.parametrize(
    ("text", "methods"),
    [
        ("import keras\nkeras.Model.__new__ = f", {"keras.Model.__new__"}),
        ("from ipu_tf._private import FuncGraph as G\nG.init = f", {"FuncGraph.init"}),
        ("from ipu_tf._private import c\ng = c.Graph\ng.capture = f", {"c.Graph.capture"}),
        ("import keras\nmodel = keras.Model()\nmodel.name = 3", set()),
        ("import tensorflow as tf\nself.x = tf.float32", set()),
    ],
)
def test_the_check_sees_what_is_wrapped(text, methods):
    assert wrapped_methods(text) == methods
