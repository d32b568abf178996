"""Names that a text defines are found without running it."""

import sys

import pytest

from ipu_tf.base.source_names import defined_names, module_file


def test_names_of_all_statements_are_found():
    text = """
import os.path, json as data
from math import pi as three
a = b = 1
for c in []: pass
def made():
    global late
    late = 1
class Net: pass
if (walrus := 3):
    with open("x") as opened: pass
match a:
    case [first, *rest]: pass
"""
    names = defined_names(text, "f.py")
    wanted = "os data three a b c made late Net walrus opened first rest"
    assert {*wanted.split()} <= names
    assert "nothing" not in names


@pytest.mark.parametrize(
    "line",
    [
        "from models import *",
        "globals()['net'] = 1",
        "def __getattr__(name): return 1",
        "setattr(module, 'net', 1)",
        "sys.modules[__name__] = 1",
        "exec('net = 1')",
    ],
)
def test_texts_that_may_add_names_leave_it_open(line):
    assert defined_names(line, "f.py") is None


def test_modules_are_found_without_loading_the_packages_around_them(tmp_path, monkeypatch):
    (tmp_path / "pack_of_names" / "inner").mkdir(parents=True)
    for folder in (tmp_path / "pack_of_names", tmp_path / "pack_of_names" / "inner"):
        (folder / "__init__.py").write_text("raise RuntimeError('loaded')")
    file = tmp_path / "pack_of_names" / "inner" / "nets.py"
    file.write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert module_file("pack_of_names.inner.nets") == file
    assert "pack_of_names" not in sys.modules
    for name in ("pack_of_names.inner", "pack_of_names.none", "no_such_module", ".nets", "math"):
        assert module_file(name) is None
    assert module_file(__name__) is None  # It is loaded.
