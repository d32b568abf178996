"""The script in the README runs as it is printed there."""

import re
from pathlib import Path

import keras
import numpy as np

README = Path(__file__).resolve().parent.parent / "README.md"


def test_script_runs(monkeypatch, capsys):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (192, 28, 28), np.uint8), random.integers(0, 10, 192)
    monkeypatch.setattr(keras.datasets.mnist, "load_data", lambda: (images, images))
    (script,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(script, str(README), "exec"), {})
    assert "MatMul" in capsys.readouterr().out


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text())
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
