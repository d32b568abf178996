"""A wheel has all that an installation needs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = "ipu_tf/profile/html"

USE = """
import keras
import numpy as np

import ipu_tf

assert ipu_tf.__file__.startswith({target!r}), ipu_tf.__file__
with ipu_tf.IPUStrategy().scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 4), "float32"), np.ones((8, 2), "float32"), batch_size=4, verbose=0)
"""


def run(*command, **variables):
    result = subprocess.run(
        command,
        cwd=variables.pop("cwd", ROOT),
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_a_wheel_is_installed_and_trains(tmp_path):
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    wheels, target = tmp_path / "wheels", tmp_path / "site"
    offline = ("--no-build-isolation", "--no-deps", "--no-index")
    run(*pip, "wheel", *offline, "--wheel-dir", str(wheels), str(ROOT))
    (wheel,) = wheels.glob("ipu_tf-*-py3-none-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"ipu_tf/_ops.so", "ipu_tf/_build_info.py", "ipu_tf/py.typed"} <= names
    sources = (path for path in (ROOT / "ops" / "poplar").rglob("*") if path.is_file())
    poplar = {f"ipu_tf/poplar/cpp/{path.relative_to(ROOT / 'ops/poplar')}" for path in sources}
    assert len(poplar) > 50
    assert poplar <= names
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / PAGES).rglob("*.*")}
    assert len(pages) > 20
    assert {name for name in pages if "__pycache__" not in name} <= names
    assert not [name for name in names if name.startswith(("tests/", "ops/", "benchmarks/"))]
    run(*pip, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    # The front of the path wins over an editable install.
    run(sys.executable, "-c", USE.format(target=str(target)), PYTHONPATH=str(target), cwd=tmp_path)
