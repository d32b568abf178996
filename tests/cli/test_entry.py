"""The command line itself: its help, its version, and the module that runs it."""

import subprocess
import sys
from pathlib import Path

import pytest
from setuptools.config.setupcfg import read_configuration

import ipu_tf
from ipu_tf import cli
from ipu_tf.cli.commands import COMMANDS


def _stem(command):
    return command.name.replace("-", "_")


def test_the_table_names_each_command_once_in_a_file_of_its_name():
    folder = Path(cli.__file__).parent
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    for command in COMMANDS:
        assert (folder / f"{_stem(command)}.py").is_file()


def test_the_table_has_every_command_that_has_a_file():
    defined = [
        path.stem
        for path in Path(cli.__file__).parent.glob("*.py")
        if " = Command(" in path.read_text()
    ]
    assert sorted(defined) == sorted(map(_stem, COMMANDS))


def test_without_a_command_it_prints_its_help(capsys):
    assert cli.main([]) == 0
    alone = capsys.readouterr().out
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--help"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == alone
    assert "estimate" in alone
    assert "validate" in alone


def test_it_prints_its_version(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"ipu-tf {ipu_tf.__version__}\n"


def test_the_version_is_that_of_the_distribution():
    setup = Path(__file__).resolve().parents[2] / "setup.cfg"
    assert read_configuration(setup)["metadata"]["version"] == ipu_tf.__version__


def test_the_module_runs():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "ipu_tf", "estimate", "nothing"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    message = "MODULE:FUNCTION, FILE.py:FUNCTION or zoo:NETWORK. Received: 'nothing'."
    assert f"error: name the model as {message}" in done.stderr
