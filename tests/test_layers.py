"""The rooms of the package: who may import whom, read from the sources."""

import ast
import graphlib

import pytest

from tests import sources
from tests.sources import PACKAGE

FLOORS = (
    ("__main__", "poprun"),
    ("cli",),
    ("compat",),
    ("validation", "sweep"),
    ("estimation", "ipu_compiler", "ipu_multi_worker_strategy", "mcmc", "zoo", "distributed"),
    ("ipu_strategy",),
    ("keras",),
    ("serving",),
    ("strategy",),
    (
        "dataset_benchmark",
        "pipelining",
        "loops",
        "ipu_infeed_queue",
        "ipu_outfeed_queue",
        "optimizers",
    ),
    ("feeds", "sharding"),
    ("eager", "runtime", "utils", "profile", "calibration"),
    ("ops", "programs"),
    ("scopes", "compiler", "poplar"),
    ("tile_program",),
    ("planner",),
    ("config",),
    ("machine", "gradient_accumulation", "processes"),
    ("base", "internals"),
)
"""A room imports rooms of lower floors alone; the package itself, with names of all, is above
all but the command line."""

KERAS_FLOORS = (
    ("keras3", "tf_keras", "tf_keras_scope"),
    ("training_hooks",),
    ("extensions",),
    ("loop", "saving"),
    ("deployment",),
    ("steps", "vendor_attributes"),
    ("training_state",),
    ("pipeline", "replication"),
    ("data", "layers", "optimizers"),
    (
        "adapters",
        "callbacks",
        "identity",
        "options",
    ),
)
"""The same within `ipu_tf.keras`, whose own names are above all of these."""

OF_ANY_KERAS = (
    "adapters",
    "data",
    "deployment",
    "loop",
    "pipeline",
    "replication",
    "saving",
    "steps",
    "training_hooks",
    "training_state",
)
"""Rooms of `ipu_tf.keras` that see models through adapters, so any Keras can have one."""

TENSORFLOW_FREE = (
    "base",
    "machine",
    "config",
    "planner",
    "tile_program",
    "compiler",
    "poplar",
    "programs",
    "processes",
    "profile",
    "calibration",
)
TENSORFLOW_FREE_FILES = ("ops/reference/",)
"""Rooms, and files of others, that are of use where TensorFlow is not loaded."""


def modules(package=PACKAGE):
    """Every module of a package by its dotted name."""
    found = {}
    for path in package.rglob("*.py"):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path, known=()):
    """Yields the modules that a file imports, in functions and for types, too."""
    for module, names in sources.imported(path):
        for name in names:
            whole = name if module is None else f"{module}.{name}"
            yield whole if module is None or whole in known else module


def breaks(found, floors=FLOORS, inside="ipu_tf", top="ipu_strategy"):
    """The imports between rooms that do not lead to a lower floor.

    Args:
        found: The modules by name.
        floors: The rooms of each floor.
        inside: The package of the rooms.
        top: The room whose floor the package itself is on.
    """

    def room(module):
        return module.removeprefix(f"{inside}.").split(".")[0] if module != inside else ""

    floor = {name: number for number, names in enumerate(floors) for name in names}
    within = {module for module in found if f"{module}.".startswith(f"{inside}.")}
    unknown = {room(module) for module in within} - {*floor, "", "_build_info"}
    assert not unknown, f"rooms without a floor: {unknown}"
    for module in sorted(within):
        for other in imports(found[module], found):
            if other not in within or room(module) in ("", room(other)):
                continue
            if floor[room(module)] >= floor.get(room(other), floor[top]):
                yield f"{module} imports {other}"


def imports_of_packages(paths, packages):
    """The imports of modules that are, or are part of, one of some others."""
    for path in paths:
        for name in imports(path):
            if any(name == other or name.startswith(f"{other}.") for other in packages):
                yield f"{path} imports {name}"


@pytest.mark.slow
def test_imports_of_a_text_are_those_of_its_syntax_tree():
    for path in sources.paths():
        found = []
        for node in sources.statements(ast.parse(path.read_text()).body):
            if isinstance(node, ast.Import):
                found.append((None, tuple(alias.name for alias in node.names)))
            elif isinstance(node, ast.ImportFrom):
                found.append((node.module, tuple(alias.name for alias in node.names)))
        assert sorted(sources.imported(path), key=str) == sorted(found, key=str), path


def test_imports_run_down_and_in_no_circle():
    found = modules()
    assert list(breaks(found)) == []
    assert list(breaks(found, KERAS_FLOORS, "ipu_tf.keras", "keras3")) == []
    graph = {
        module: {other for other in imports(path, found) if other in found and other != module}
        for module, path in found.items()
        if "." in module
    }
    graphlib.TopologicalSorter(graph).prepare()  # Raises CycleError, which names the circle.


def is_of_a_keras(name):
    """Whether a module is a Keras, what it keeps private, or the room of one."""
    if name == "keras.tree":  # Structures are no part of a model: it serves those of all.
        return False
    rooms = ("ipu_tf.keras.keras3", "ipu_tf.keras.keras3.models", "ipu_tf.keras.layers")
    return name in ("keras", "tf_keras") or name.startswith(
        ("keras.", "tf_keras.", "ipu_tf.internals.keras", *rooms)
    )


def test_rooms_of_any_keras_know_none():
    keras, known = PACKAGE / "keras", {*modules(), "keras.tree"}
    paths = [path for room in OF_ANY_KERAS for path in (keras / room).rglob("*.py")]
    paths += [path for room in OF_ANY_KERAS for path in keras.glob(f"{room}.py")]
    knowing = {
        path.relative_to(keras).as_posix()
        for path in paths
        if any(map(is_of_a_keras, imports(path, known)))
    }
    assert knowing == set()


@pytest.mark.parametrize("room", ["runtime", "ops", "profile"])
def test_folders_of_a_room_import_in_one_direction(room):
    found, start = modules(), f"{PACKAGE.name}.{room}."

    def folder(module):
        inside = module.removeprefix(start).split(".")
        return inside[0] if (PACKAGE / room / inside[0]).is_dir() else "the room itself"

    graph = {}
    for module, path in found.items():
        if module.startswith(start):
            others = {folder(one) for one in imports(path, found) if one.startswith(start)}
            graph.setdefault(folder(module), set()).update(others - {folder(module)})
    graphlib.TopologicalSorter(graph).prepare()  # Raises CycleError, which names the circle.
    assert len(graph) > 3


def test_rooms_without_tensorflow_import_none():
    paths = [
        path
        for path in PACKAGE.rglob("*.py")
        if (name := path.relative_to(PACKAGE).as_posix()).startswith(TENSORFLOW_FREE_FILES)
        or name.split("/")[0].removesuffix(".py") in TENSORFLOW_FREE
    ]
    assert len(paths) > 100
    assert list(imports_of_packages(paths, ("tensorflow", "keras"))) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"machine/a.py": "import ipu_tf.runtime.b", "runtime/b.py": ""}, "imports ipu_tf.runtime"),
        ({"machine/a.py": "def f():\n from ipu_tf import cli", "cli.py": ""}, "imports ipu_tf.cli"),
        ({"machine/a.py": "from ipu_tf import X"}, "machine.a imports ipu_tf"),
        ({"keras/a.py": "if TYPE_CHECKING:\n import ipu_tf.cli", "cli.py": ""}, "imports ipu_tf"),
    ],
)
def test_the_check_sees_a_break(tmp_path, files, message):
    package = tmp_path / "ipu_tf"
    for name, text in {"__init__.py": "", **files}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (found,) = breaks(modules(package))
    assert message in found


def test_the_check_sees_a_break_within_keras(tmp_path):
    files = {
        "pipeline/a.py": "from ipu_tf.keras.training_state import X",
        "training_state.py": "import ipu_tf.keras.pipeline.b",
        "pipeline/b.py": "import ipu_tf.strategy",
        "pipeline/c.py": "from ipu_tf.keras import Model",
    }
    package = tmp_path / "ipu_tf" / "keras"
    (package / "pipeline").mkdir(parents=True)
    for name, text in {"__init__.py": "", **files}.items():
        (package / name).write_text(text)
    found = breaks(modules(package.parent), KERAS_FLOORS, "ipu_tf.keras", "keras3")
    assert list(found) == [
        "ipu_tf.keras.pipeline.a imports ipu_tf.keras.training_state",
        "ipu_tf.keras.pipeline.c imports ipu_tf.keras",
    ]
