"""Modules for use without TensorFlow do not load it, in processes of their own."""

import ast
import json
import math
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import ipu_tf

ROOT = Path(__file__).resolve().parent.parent
HELP_SECONDS = 0.3
COMMAND = "import sys; from ipu_tf import cli; sys.argv[1:] = {words!r}; sys.exit(cli.main())"
LOADED = "print([name for name in ('tensorflow', 'keras') if name in sys.modules])"


def in_a_fresh_process(script):
    """Runs a script and returns the last line that it prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{script}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_modules_load_no_tensorflow():
    modules = [
        "ipu_tf",
        "ipu_tf.machine",
        "ipu_tf.config",
        "ipu_tf.config.reference",
        "ipu_tf.compiler",
        "ipu_tf.compiler.compile",
        "ipu_tf.compiler.pipeline",
        "ipu_tf.profile",
        "ipu_tf.profile.report",
        "ipu_tf.calibration.validate",
        "ipu_tf.cli",
    ]
    script = f"""
import importlib
for module in {modules}:
    importlib.import_module(module)
    assert "tensorflow" not in sys.modules and "keras" not in sys.modules, module
from ipu_tf import IPUConfig, IPUOutOfMemoryError, Report, UnsupportedOpcodeError, config, machine
IPUConfig().configure_ipu_system()
{LOADED}
"""
    assert in_a_fresh_process(script) == "[]"


def test_samplers_are_an_attribute_that_is_loaded_when_it_is_used():
    script = "import ipu_tf\nassert 'mcmc' in dir(ipu_tf)\n"
    script += "sys.modules['tensorflow_probability'] = None\n"
    script += "try: ipu_tf.mcmc\nexcept ModuleNotFoundError as error: print(error)"
    assert re.match(
        r"`ipu_tf.mcmc` needs TensorFlow Probability. Install it: pip install 'tens.*Received: ",
        in_a_fresh_process(script),
    )


def test_commands_that_compute_nothing_load_nothing_large():
    script = """
import contextlib
from ipu_tf import cli
for sys.argv[1:] in [[], ["--help"], ["--version"], ["estimate", "--help"]]:
    with contextlib.suppress(SystemExit):
        cli.main()
print([name for name in ('tensorflow', 'keras', 'numpy') if name in sys.modules])
"""
    assert in_a_fresh_process(script) == "[]"


def test_typos_load_nothing_large(tmp_path):
    (tmp_path / "nets.py").write_text("import keras\n\n\ndef net():\n    return keras.Model()\n")
    (tmp_path / "broken.py").write_text("if x\n")
    net = f"{tmp_path}/nets.py:net"
    commands = [
        ["estimate", "zoo:resnet51"],
        ["estimate", "zoo:resnet50", "--optimizer", "adma"],
        ["estimate", f"{net}s"],
        ["estimate", net, "--batch-size", "0"],
        ["estimate", net, "--ipus", "3"],
        ["estimate", net, "--chip", "gc9"],
        ["estimate", net, "--stages", "0"],
        ["estimate", net, "--json", f"{tmp_path}/no/report.json"],
        ["run", "--tf1", f"{tmp_path}/broken.py"],
    ]
    script = f"""
from ipu_tf import cli
for words in {commands!r}:
    assert cli.main(words) in (1, 2), words
{LOADED}
"""
    assert in_a_fresh_process(script) == "[]"


def test_validate_loads_no_tensorflow(tmp_path):
    params = {"m": 64, "k": 64, "n": 64}
    common = {"chip": "gc200", "dtype": "f16", "measured": 1.0}
    records = [
        {"id": "a", "kind": "dense_matmul", "params": params, "unit": "TFLOP/s", **common},
        {"id": "b", "kind": "host", "params": {"tiles": 1}, "unit": "us", **common},
    ]
    path = tmp_path / "records.json"
    path.write_text(json.dumps(records))
    script = f"""
import contextlib
with contextlib.suppress(SystemExit):
    {COMMAND.format(words=["validate", str(path)])}
{LOADED}
"""
    assert in_a_fresh_process(script) == "[]"


def test_help_is_fast():
    """Its processor time, the least of some runs: other processes do not count."""
    seconds = [math.inf]
    while min(seconds) >= HELP_SECONDS and len(seconds) <= 5:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        in_a_fresh_process(f"try:\n    {COMMAND.format(words=['--help'])}\nexcept SystemExit: pass")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < HELP_SECONDS


def test_every_name_is_found_and_listed():
    for name in ipu_tf.__all__:
        assert getattr(ipu_tf, name) is not None
    assert {*ipu_tf.__all__, "profile", "ipu_strategy", "__version__"} <= {*dir(ipu_tf)}


@pytest.mark.slow
def test_modules_are_attributes_without_an_import_of_their_own():
    script = "import ipu_tf\nprint(ipu_tf.ipu_strategy.IPUStrategy is ipu_tf.IPUStrategy)"
    assert in_a_fresh_process(script) == "True"


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match="module 'ipu_tf' has no attribute 'IPUStrategie'"):
        _ = ipu_tf.IPUStrategie
    with pytest.raises(ImportError, match="cannot import name 'IPUStrategie' from 'ipu_tf'"):
        from ipu_tf import IPUStrategie  # noqa: F401


def test_type_checkers_read_the_same_homes():
    """The imports under TYPE_CHECKING name each public name once, where it is looked up."""
    tree = ast.parse((ROOT / "ipu_tf" / "__init__.py").read_text())
    (block,) = (
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test)[0] == "T"
    )
    homes = {alias.name: node.module for node in block.body for alias in node.names}
    modules = {name for name, home in homes.items() if home == "ipu_tf"}
    assert {*homes} == {*ipu_tf.__all__, "keras"}
    assert modules <= ipu_tf._MODULES
    assert {name: home for name, home in homes.items() if name not in modules} == ipu_tf._HOMES


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        "import keras, ipu_tf",
        "import ipu_tf.keras",
        "from ipu_tf import IPUStrategy; strategy = IPUStrategy()",
    ],
)
def test_files_of_models_find_the_classes_they_name(first, model_file):
    script = f"{first}\nimport keras\nlayer = keras.saving.load_model({model_file!r}).layers[0]\n"
    assert in_a_fresh_process(f"{script}print(type(layer).__module__)").startswith("ipu_tf.keras.")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.keras"
    layers = [keras.Input((4,)), ipu_tf.keras.layers.Dropout(0.1)]
    keras.Sequential(layers).save(path)
    return str(path)
