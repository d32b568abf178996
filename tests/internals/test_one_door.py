"""Only `ipu_tf/internals` uses what TensorFlow and Keras keep private."""

import ast
import re

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

OF_OTHERS = re.compile(
    r"(?<!\bself)(?<!\bcls)(?<!\bsuper\(\))\._[A-Za-z]|\b(?:get|set|has|del)attr\("
)
"""What a text has where it uses a private attribute of an object that is not its own."""
OF_SELF = re.compile(r"\b(?:self|cls)\.(_[A-Za-z]\w*)")
DEFINITION = re.compile(r"^    def (_\w+)\(|\bself\.(_\w+)(?:: [^=\n]+)? = ", re.MULTILINE)
"""How classes define most attributes; others are read from the syntax tree."""


def outside():
    """The texts of the modules outside of the door, by path."""
    paths = (path for path in sources.paths() if INTERNALS not in path.parents)
    return {str(path.relative_to(PACKAGE)): path.read_text() for path in paths}


def private_imports(text):
    """The imported modules that TensorFlow and Keras keep private."""
    names = []
    for module, imported in sources.imports_of(text):
        names += imported if module is None else [f"{module}.{name}" for name in imported]
    return [n for n in names if any(f"{n}.".startswith(f"{p}.") for p in PRIVATE_PACKAGES)]


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_OF_NAMED_TUPLES


def is_name(node, *names):
    return isinstance(node, ast.Name) and node.id in names


def attributes_of_classes(nodes):
    """The names that the classes among nodes define: methods, fields, attributes of `self`."""
    names = set()
    for owner in (node for node in nodes if isinstance(node, ast.ClassDef)):
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
    if not OF_OTHERS.search(text):
        return []
    nodes = list(ast.walk(ast.parse(text)))
    own = attributes_of_classes(nodes)
    found = []
    for node in nodes:
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
    return set(filter(is_private, OF_SELF.findall(text)))


def attributes_of_unknown_classes(texts):
    """The private attributes of `self` that no class of the texts defines, by the texts' names."""
    known = {
        name for text in texts.values() for names in DEFINITION.findall(text) for name in names
    }
    rest = {name: private_attributes_of_self(text) - known for name, text in texts.items()}
    rest = {name: attributes for name, attributes in rest.items() if attributes}
    for sought in set().union(*rest.values()):
        for text in texts.values():
            if sought in text and sought not in known:
                known |= attributes_of_classes(ast.walk(ast.parse(text)))
    return {name: left for name, attributes in rest.items() if (left := attributes - known)}


def test_private_names_are_used_by_the_door_alone():
    texts = outside()
    assert {path: names for path in texts if (names := private_imports(texts[path]))} == {}
    assert {path: names for path in texts if (names := private_attributes(texts[path]))} == {}
    assert attributes_of_unknown_classes(texts) == {}


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
    texts = {
        "a.py": "class A(B):\n    _of_c: int\n    def f(self): return self._of_a, self._of_b",
        "b.py": "class B:\n    def _of_b(self): return self._of_c",
    }
    assert attributes_of_unknown_classes(texts) == {"a.py": {"_of_a"}}


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
