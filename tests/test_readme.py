"""The script in the README runs as it is printed there."""

import re
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

from ipu_tf import Report, cli

MODEL = "keras.applications.ResNet50(weights=None)"
SMALL = "keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])"
"""The estimate of the README's model takes seconds: the tests give its name to a small one."""

README = Path(__file__).resolve().parent.parent / "README.md"


def scripts():
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_script_runs(monkeypatch, capsys):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (192, 28, 28), np.uint8), random.integers(0, 10, 192)
    monkeypatch.setattr(keras.datasets.mnist, "load_data", lambda: (images, images))
    script, _ = scripts()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        exec(compile(script, str(README), "exec"), {})
    assert [str(one.message) for one in said] == []
    assert "MatMul" in capsys.readouterr().out


@pytest.mark.slow
def test_commands_run(monkeypatch, capsys, tmp_path):
    _, models = scripts()
    assert MODEL in models
    (tmp_path / "models.py").write_text(models.replace(MODEL, SMALL))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^ipu-tf (estimate [^#\n]*)", README.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert cli.main(command.split()) == 0
    assert len(re.findall("^Program '", capsys.readouterr().out, re.MULTILINE)) == 3
    assert Report.from_json("report.json").programs[0].device.target.chip == "bow"


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text())
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
