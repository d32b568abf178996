"""The Keras of a script by what it imports."""

import pytest

from ipu_tf.compat.script_keras import keras_of


@pytest.mark.parametrize(
    ("line", "keras"),
    [
        ("", 2),
        ("import keras", 2),
        ("from tensorflow.python import ipu", 2),
        ("import ipu_tf", 3),
        ("import os, ipu_tf.config as c", 3),
        ("def f():\n    from ipu_tf.keras import PipelineStage", 3),
        ("from ipu_tf import compat, IPUStrategy", 3),
        ("import ipu_tf.compat", 2),
        ("from ipu_tf import compat", 2),
        ("from ipu_tf.compat import install", 2),
        ("import ipu_tf_of_others", 2),
        ("from .ipu_tf import x", 2),
        ("from . import ipu_tf", 2),
    ],
)
def test_a_script_that_imports_ipu_tf_is_for_keras_3(line, keras):
    assert keras_of(f"import tensorflow\n{line}\n") == keras
    assert keras_of(f"import tensorflow\n{line}\n".encode()) == keras
