"""Only `ipu_tf/internals` uses what TensorFlow and Keras keep private, read with `ast`."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "ipu_tf"
INTERNALS = PACKAGE / "internals"
PRIVATE_PACKAGES = ("tensorflow.python", "tensorflow.core", "tensorflow.compiler", "keras.src")
ACCESSORS = ("getattr", "setattr", "hasattr", "delattr")
PUBLIC_OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}


def modules():
    """The modules outside of the door, by their paths in the package."""
    paths = (path for path in PACKAGE.rglob("*.py") if INTERNALS not in path.parents)
    return {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(paths)}


def private_imports(text):
    """The imported modules that TensorFlow and Keras keep private."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [n for n in names if any(f"{n}.".startswith(f"{p}.") for p in PRIVATE_PACKAGES)]


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_OF_NAMED_TUPLES


def is_name(node, *names):
    return isinstance(node, ast.Name) and node.id in names


def attributes_of_classes(tree):
    """The names that the classes of a module define: methods, fields, attributes of `self`."""
    names = set()
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
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
    tree = ast.parse(text)
    own = attributes_of_classes(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner, name = node.value, node.attr
        elif isinstance(node, ast.Call) and is_name(node.func, *ACCESSORS):
            owner, name, *_ = [*node.args, None, None]
            name = name.value if isinstance(name, ast.Constant) else ""
        else:
            continue
        if not is_private(name) or name in own:
            continue
        if ast.unparse(owner) not in ("self", "cls", "super()"):
            found.append(ast.unparse(node))
    return found


def inherited_attributes(text, known):
    """The private attributes of `self` and `cls` that no class of the package defines."""
    attributes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    own = [node for node in attributes if is_name(node.value, "self", "cls")]
    return [ast.unparse(node) for node in own if is_private(node.attr) and node.attr not in known]


def test_private_modules_are_imported_by_the_door_alone():
    found = {path: private_imports(text) for path, text in modules().items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_private_attributes_are_used_by_the_door_alone():
    found = {path: private_attributes(text) for path, text in modules().items()}
    assert {path: uses for path, uses in found.items() if uses} == {}


def test_private_attributes_of_base_classes_elsewhere_are_used_by_the_door_alone():
    texts = modules()
    known = set().union(*(attributes_of_classes(ast.parse(text)) for text in texts.values()))
    found = {path: inherited_attributes(text, known) for path, text in texts.items()}
    assert {path: uses for path, uses in found.items() if uses} == {}


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
    assert inherited_attributes(text, {"_of_a"}) == ["self._of_b"]


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
