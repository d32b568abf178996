"""The sources of Poplar's libraries in a built package."""

import re
import subprocess
from pathlib import Path

import pytest
from setuptools import Distribution

from ipu_tf.poplar import PoplarBuildError
from ipu_tf.poplar.libraries import sources
from ops.setuptools_commands import BuildOps


@pytest.fixture
def command(monkeypatch, tmp_path):
    """`build_ops` for a package in a folder, without the compilation of tile ops."""
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: done)
    command = BuildOps(Distribution())
    command.build_lib = str(tmp_path)
    return command


def test_a_built_package_has_the_sources(command, tmp_path, monkeypatch):
    command.run()
    folder = tmp_path / "ipu_tf" / "poplar" / "cpp"
    assert (folder / "include" / "poplar" / "Graph.hpp").is_file()
    copied = {str(path) for path in folder.rglob("*") if path.is_file()}
    assert copied <= set(command.get_outputs())
    monkeypatch.setattr("ipu_tf.poplar.libraries._SOURCES", (folder,))
    assert sources() == folder


def test_an_editable_install_reads_those_of_the_checkout(command, tmp_path):
    command.editable_mode = True
    command.run()
    assert list(tmp_path.iterdir()) == []
    assert [Path(name).name for name in command.get_outputs()] == ["_ops.so", "_build_info.py"]


def test_missing_sources_are_an_error(monkeypatch, tmp_path):
    folders = (tmp_path / "a", tmp_path / "b")
    monkeypatch.setattr("ipu_tf.poplar.libraries._SOURCES", folders)
    with pytest.raises(PoplarBuildError, match="The C\\+\\+ sources of Poplar are missing"):
        sources()


FLOORS = ("base", "codelets", "graph", "compile", "profile", "execution")
"""The folders of libpoplar; includes go to folders before."""


def test_includes_of_libpoplar_run_one_way():
    root = sources() / "src" / "poplar"
    assert {path.name for path in root.iterdir()} == set(FLOORS)
    for file in root.rglob("*.*"):
        used = re.findall(r'^#include "\.\./(\w+)/', file.read_text(), re.MULTILINE)
        above = [name for name in used if FLOORS.index(name) >= FLOORS.index(file.parent.name)]
        assert above == [], f"{file} includes {above}"
