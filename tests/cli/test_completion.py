"""`ipu-tf completion`: the scripts complete every command and option."""

import json
import shutil
import subprocess

import pytest

from ipu_tf import cli
from ipu_tf.cli.commands import COMMANDS


@pytest.fixture
def completed(capsys):
    """Completes words of a command line in bash."""
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    def complete(*words):
        given = " ".join(f"'{word}'" for word in ("ipu-tf", *words))
        ask = f"COMP_WORDS=({given}); COMP_CWORD={len(words)}; _ipu_tf; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    return complete


def test_bash_completes_commands_options_and_choices(completed):
    names = [command.name for command in COMMANDS]
    assert completed("") == [*names, "--help", "--version"]
    assert completed("est") == ["estimate"]
    assert completed("estimate", "--inf") == ["--inference"]
    assert completed("estimate", "--unsupported", "") == ["raise", "warn"]
    assert completed("completion", "") == ["-h", "--help", "--json", "bash", "zsh", "fish"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_of_their_shell(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS:
        assert command.name in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_words_are_data_too(capsys):
    assert cli.main(["completion", "bash", "--json"]) == 0
    words = json.loads(capsys.readouterr().out)
    assert [*words] == [command.name for command in COMMANDS]
    assert words["estimate"]["--unsupported"] == ["raise", "warn"]


def test_every_command_takes_json(capsys):
    cli.main(["completion", "bash", "--json"])
    words = json.loads(capsys.readouterr().out)
    assert [name for name, options in words.items() if "--json" not in options] == []
