"""The benchmark of the vendor's module names: what they add stays small."""

import subprocess
import sys

import pytest

from benchmarks import aliases


@pytest.mark.slow
def test_a_python_that_imports_neither_starts_as_fast(tmp_path):
    found = aliases.measure("start", 5, tmp_path)
    assert set(found["milliseconds"]) == {"without", "with"}
    # The least of five: other work on the computer delays the start.
    least = {side: figures["min"] for side, figures in found["milliseconds"].items()}
    assert least["with"] - least["without"] <= aliases.WANTED_MILLISECONDS["start"]
    assert (tmp_path / "start-with").joinpath("ipu_tf_compat.pth").exists()


INSTALLS = """
import time
import tensorflow, keras, ipu_tf
tf_keras = tensorflow.keras.layers
begin = time.process_time()
import ipu_tf.compat
ipu_tf.compat.install()
print(1000 * (time.process_time() - begin))
"""


@pytest.mark.slow
def test_the_names_take_little_beside_the_imports_of_a_script():
    done = subprocess.run(
        [sys.executable, "-c", INSTALLS], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) <= aliases.WANTED_MILLISECONDS["imports"]
