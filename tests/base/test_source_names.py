"""Names that a text defines are found without running it."""

import sys

import pytest

from ipu_tf.base.source_names import defined_names, is_missing, module_file, names_of_module


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
    assert module_file("pack_of_names.inner") == file.parent / "__init__.py"
    for name in ("pack_of_names.none", "no_such_module", ".nets", "math"):
        assert module_file(name) is None
    assert module_file(__name__) is None  # It is loaded.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of the path: a package, one with a path of its own, folders without a file."""
    for name in ("closed", "closed/bare", "open_path", "bare"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nets.py").write_text("")
    (tmp_path / "closed" / "__init__.py").write_text("net = 1\n")
    (tmp_path / "open_path" / "__init__.py").write_text("__path__.append('elsewhere')")
    monkeypatch.syspath_prepend(tmp_path)


def test_packages_have_the_names_of_their_text_and_their_modules(folder):
    assert {"net", "nets", "bare"} <= names_of_module("closed")
    assert "none" not in names_of_module("closed")


@pytest.mark.parametrize("name", ["no_such_module", "closed.none", "closed.none.nets", "bare.none"])
def test_modules_that_do_not_exist_are_missing(folder, name):
    assert is_missing(name)


@pytest.mark.parametrize(
    "name",
    [
        "closed.nets",
        "closed.bare.nets",
        "closed.bare.none",  # Its folder's path depends on a package that is not loaded.
        "bare.nets",
        "open_path.none",
        "math.none",
        "pytest.none",  # It is loaded.
        ".nets",
    ],
)
def test_modules_that_exist_or_may_are_not_missing(folder, name):
    assert not is_missing(name)
