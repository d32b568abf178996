"""The sources of Poplar's libraries in a built package."""

import re
import subprocess
from pathlib import Path

import pytest
from setuptools import Distribution

from ipu_tf.poplar import PoplarBuildError
from ipu_tf.poplar.libraries import installation, sources
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


def test_the_first_use_builds_every_source_once_and_says_so(monkeypatch, tmp_path, capsys):
    compiled = []

    def run(self, arguments, what):
        unit = Path(arguments[arguments.index("-c") + 1]) if "-c" in arguments else None
        if unit is not None:
            compiled.extend(re.findall(r'#include "(.+)"', unit.read_text()))
        Path(arguments[arguments.index("-o") + 1]).touch()

    monkeypatch.setattr("ipu_tf.poplar.toolchain.Compiler.run", run)
    built = installation(folders=(tmp_path,))
    assert sorted(compiled) == sorted(str(file) for file in sources().glob("src/**/*.cc"))
    assert (built.prefix / "lib" / "libpopops.so").is_file()
    first, last = capsys.readouterr().err.splitlines()
    assert re.match(r"Building Poplar's libraries: \d+ parts, once, in less than two m", first)
    assert last.startswith(f"Built Poplar's libraries in {built.prefix} (")
    assert installation(folders=(tmp_path,)) == built
    assert capsys.readouterr().err == ""


def test_a_terminal_sees_how_far_the_build_is(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        "ipu_tf.poplar.toolchain.Compiler.run",
        lambda self, arguments, what: Path(arguments[arguments.index("-o") + 1]).touch(),
    )
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    installation(folders=(tmp_path,))
    lines = capsys.readouterr().err.split("\r")
    numbers = [line.partition(": ")[2].split(" parts")[0] for line in lines[1:]]
    parts = len(numbers)
    assert numbers == [f"{done} of {parts}" for done in range(1, parts + 1)]
