"""TensorFlow is adapted once it is loaded and what loads it is, too."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from ipu_tf.compat.spellings.loading import TensorFlowLoading

def whole():
    names = ("tensorflow", "keras", "beside")
    print(*[name for name in names if hasattr(sys.modules.get(name), "whole")])

sys.meta_path.insert(0, TensorFlowLoading(whole))
"""

PACKAGES = {
    "tensorflow": "whole = True",
    "keras": "import tensorflow\nwhole = True",
    "beside": "import keras\nwhole = True",
}
"""Stand for the real ones, which take seconds to import."""


@pytest.mark.parametrize(
    ("first", "whole"),
    [
        ("import tensorflow", "tensorflow"),
        ("import keras", "tensorflow keras"),
        ("import beside", "tensorflow keras"),
        ("import tensorflow, keras", "tensorflow"),
    ],
)
def test_no_module_that_loads_tensorflow_is_half_imported(first, whole, tmp_path):
    for name, text in PACKAGES.items():
        (tmp_path / f"{name}.py").write_text(text)
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-c", f"{SCRIPT}{first}\n"]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{whole}\n", "")
