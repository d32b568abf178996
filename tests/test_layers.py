"""The layers of the package: who may import whom, read from the source with `ast`."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "ipu_tf"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "_build_info.py")

# Each layer may import itself and the layers after it.
LAYERS = ("estimation", "keras", "ipu_strategy", "runtime", "compiler", "machine")
# Beside the line: what these may not reach.
FORBIDDEN = {
    "machine": ("profile", "ops", "config", *LAYERS[:5]),
    "compiler": ("profile", *LAYERS[:4]),
    "runtime": LAYERS[:3],
    "ipu_strategy": LAYERS[:2],
    "keras": LAYERS[:1],
    "ops": LAYERS[:3],
    "profile": LAYERS[:4],
    "config": LAYERS[:4],
}
# Against the arrow, on purpose: a scope makes Keras models into models of ipu_tf.keras, so the
# strategy reaches for that layer at the moment a scope opens.
EXCEPTIONS = {"ipu_strategy.py": "ipu_tf.keras"}
PRIVATE = ("tensorflow.python", "keras.src")
WITHOUT_TENSORFLOW = ("machine/", "compiler/planner/", "ops/reference/")


def imported_modules(text, package):
    """Dotted names of all imports in a source text, also those inside functions."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            module = node.module or ""
            if node.level:
                module = f"{base}.{module}" if module else base
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return names


def starts_with(name, module):
    return name == module or name.startswith(module + ".")


def layer_breaks(text, package, layer):
    """The imports in `text`, a module of `layer`, that go against the arrow."""
    forbidden = [f"ipu_tf.{other}" for other in FORBIDDEN.get(layer, ())]
    return [
        name
        for name in imported_modules(text, package)
        if any(starts_with(name, module) for module in forbidden)
    ]


def package_of(path):
    return ".".join(path.relative_to(PACKAGE.parent).parent.parts)


def layer_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def identify(path):
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", FILES, ids=identify)
def test_imports_follow_the_arrow(path):
    breaks = layer_breaks(path.read_text(), package_of(path), layer_of(path))
    allowed = EXCEPTIONS.get(identify(path))
    assert [name for name in breaks if allowed is None or not starts_with(name, allowed)] == []


@pytest.mark.parametrize("path", FILES, ids=identify)
def test_private_imports_stand_in_one_file(path):
    if path == PACKAGE / "_private.py":
        return
    names = imported_modules(path.read_text(), package_of(path))
    assert [name for name in names if any(starts_with(name, part) for part in PRIVATE)] == []


@pytest.mark.parametrize(
    "path", [path for path in FILES if identify(path).startswith(WITHOUT_TENSORFLOW)], ids=identify
)
def test_machine_plans_and_reference_know_no_tensorflow(path):
    names = imported_modules(path.read_text(), package_of(path))
    strangers = ("tensorflow", "keras")
    assert [name for name in names if any(starts_with(name, part) for part in strangers)] == []


def test_every_private_import_has_a_reason():
    path = PACKAGE / "_private.py"
    lines = path.read_text().splitlines()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom) and node.module != "__future__":
            above = lines[node.lineno - 2].strip()
            beside = lines[node.end_lineno - 1]
            explained = above.startswith("#") or above.startswith("from") or "#" in beside
            assert explained, f"_private.py line {node.lineno} gives no reason"


@pytest.mark.parametrize(
    "text",
    [
        "import ipu_tf.runtime",
        "from ipu_tf import runtime",
        "from ipu_tf.runtime.executable import Executable",
        "from ..runtime import executable",
        "def f():\n    import ipu_tf.keras",
    ],
)
def test_the_check_sees_a_break(text):
    assert layer_breaks(text, "ipu_tf.machine", "machine") != []


def test_the_check_allows_the_arrow():
    text = "from ipu_tf.machine import target\nfrom . import plan"
    assert layer_breaks(text, "ipu_tf.compiler", "compiler") == []


def test_every_folder_of_modules_is_a_package():
    """`pip install` leaves out folders without `__init__.py`, which an editable install finds."""
    root = Path(__file__).parent.parent / "ipu_tf"
    folders = {path.parent for path in root.rglob("*.py")}
    assert len(folders) > 5
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
