"""Only `ipu_tf/internals` uses what TensorFlow and Keras keep private, read with `ast`."""

import ast
import functools

import pytest

from tests import sources
from tests.sources import PACKAGE

INTERNALS = PACKAGE / "internals"
PRIVATE_PACKAGES = (
    "tensorflow.python",
    "tensorflow.core",
    "tensorflow.compiler",
    "keras.src",
    "tf_keras.src",
)
ACCESSORS = ("getattr", "setattr", "hasattr", "delattr")
OWNERS = ("self", "cls", "super()", "os", "atexit")
"""Objects whose names with an underscore are one's own, or Python's."""
PUBLIC_OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}


@functools.cache
def outside():
    """What each module outside of the door uses, by its path: walking all of them takes seconds.

    Returns:
        The private imports, the private attributes of others and of `self`, and what its classes
            define.
    """
    paths = (path for path in sources.paths() if INTERNALS not in path.parents)
    texts = {str(path.relative_to(PACKAGE)): path.read_text() for path in paths}
    return {
        path: (
            private_imports(text),
            private_attributes(text),
            private_attributes_of_self(text),
            attributes_of_classes(nodes(text)),
        )
        for path, text in texts.items()
    }


@functools.lru_cache(maxsize=1)
def nodes(text):
    """The nodes of a source text; those of the last one are kept."""
    return list(ast.walk(ast.parse(text)))


def private_imports(text):
    """The imported modules that TensorFlow and Keras keep private."""
    names = []
    for node in nodes(text):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [n for n in names if any(f"{n}.".startswith(f"{p}.") for p in PRIVATE_PACKAGES)]


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_OF_NAMED_TUPLES


def is_name(node, *names):
    return isinstance(node, ast.Name) and node.id in names


def attributes_of_classes(found):
    """The names that the classes among nodes define: methods, fields, attributes of `self`."""
    names = set()
    for owner in (node for node in found if isinstance(node, ast.ClassDef)):
        for node in owner.body:
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
        for node in ast.walk(owner):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names |= {node.attr} if is_name(node.value, "self") else set()
    return names


def private_attributes(text):
    """The expressions that use a private attribute of an object of another module's class."""
    own = attributes_of_classes(nodes(text))
    found = []
    for node in nodes(text):
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif isinstance(node, ast.Call) and is_name(node.func, *ACCESSORS):
            owner, name, *_ = [*node.args, None, None]
            name = name.value if isinstance(name, ast.Constant) else ""
        else:
            continue
        if not is_private(name) or name in own:
            continue
        if ast.unparse(owner) not in OWNERS:
            found.append(ast.unparse(node))
    return found


def private_attributes_of_self(text):
    """The private attributes of `self` and `cls`."""
    attributes = [node for node in nodes(text) if isinstance(node, ast.Attribute)]
    return {
        node.attr
        for node in attributes
        if is_name(node.value, "self", "cls") and is_private(node.attr)
    }


def test_private_modules_are_imported_by_the_door_alone():
    assert {path: imports for path, (imports, *_) in outside().items() if imports} == {}


def test_private_attributes_are_used_by_the_door_alone():
    assert {path: names for path, (_, names, *_) in outside().items() if names} == {}


def test_private_attributes_of_base_classes_elsewhere_are_used_by_the_door_alone():
    known = set().union(*(defined for *_, defined in outside().values()))
    inherited = {path: of_self - known for path, (_, _, of_self, _) in outside().items()}
    assert {path: names for path, names in inherited.items() if names} == {}


@pytest.mark.parametrize("name", ["tensorflow.py", "keras.py"])
def test_every_private_name_has_a_reason(name):
    text = (INTERNALS / name).read_text()
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            assert "Relies on" in ast.get_docstring(node), f"{name}: {node.name} gives no reason"
        elif isinstance(node, ast.ImportFrom) and node.module.startswith(PRIVATE_PACKAGES):
            above = lines[node.lineno - 2]
            assert above.startswith(("# ", "from ", ")")), f"{name}: line {node.lineno}, no reason"


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow.python",
        "from tensorflow.core.framework import node_def_pb2",
        "from keras import src",
        "def f():\n    import keras.src.models as m",
    ],
)
def test_the_check_sees_a_private_import(text):
    assert private_imports(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "graph._functions",
        "model.optimizer._distribution_strategy = 3",
        "getattr(op, '_body_graph', None)",
        "hasattr(op, '_body_graph')",
        "setattr(op, '_while', 3)",
        "self._graph._create_op_internal()",
        "class A:\n    def f(self, other):\n        return other._value",
    ],
)
def test_the_check_sees_a_private_attribute(text):
    assert private_attributes(text) != []


def test_the_check_sees_an_attribute_of_a_base_class_elsewhere():
    text = "class A(B):\n    def f(self):\n        return self._of_a, self._of_b"
    assert private_attributes_of_self(text) == {"_of_a", "_of_b"}


@pytest.mark.parametrize(
    "text",
    [
        "self._graph",
        "super()._build(3)",
        "key._replace(name=3)",
        "layer.__dict__",
        "getattr(op, name)",
        "class A:\n    _value = 3\ndef f(a):\n    return a._value",
        "class A:\n    def f(self):\n        self._value = 3\ndef f(a):\n    return a._value",
    ],
)
def test_the_check_allows_ones_own_attributes(text):
    assert private_attributes(text) == []
