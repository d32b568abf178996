"""Modules of scripts find TensorFlow 1 by the name `tensorflow`, libraries that of today."""

import builtins
import importlib
import sys

import pytest
import tensorflow as tf

from ipu_tf.compat.tensorflow1.estimator import Estimators
from ipu_tf.compat.tensorflow1.interface import imported_by_scripts
from ipu_tf.compat.tensorflow1.sizes import sizes_may_be_floats

MODULE = """
import tensorflow as tf
import tensorflow.compat.v1 as named
import tensorflow.keras.layers
from tensorflow import placeholder, keras
"""


def module_in(folder, name, monkeypatch):
    """A module with `MODULE` in a folder, imported."""
    folder.mkdir(parents=True)
    (folder / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


def test_modules_of_scripts_have_the_names_of_tensorflow_1(tmp_path, monkeypatch):
    stock = builtins.__import__
    with imported_by_scripts():
        found = module_in(tmp_path / "script", "of_a_script", monkeypatch)
    assert builtins.__import__ is stock
    v1 = tf.compat.v1
    assert found.tf.placeholder is found.placeholder is found.named.placeholder is v1.placeholder
    assert found.tf.train.AdamOptimizer is v1.train.AdamOptimizer
    assert found.tf.losses.mean_squared_error is v1.losses.mean_squared_error
    assert found.named is v1
    assert (found.tf.__name__, found.tf.keras) == ("tensorflow", tf.keras)
    assert found.tf.python.ops.array_ops.concat
    assert found.tf.__version__ == found.tf.VERSION == "1.15.5"
    assert found.tf.pywrap_tensorflow.__name__ == "tensorflow.python.pywrap_tensorflow"
    assert found.tf.function is tf.function
    assert {"Session", "function"} <= set(dir(found.tf))
    with pytest.raises(AttributeError, match="module 'tensorflow' has no attribute 'nonsense'"):
        found.tf.nonsense  # noqa: B018


def test_installed_modules_have_the_names_of_today(tmp_path, monkeypatch):
    with (
        imported_by_scripts(),
        pytest.raises(ImportError, match="cannot import name 'placeholder'"),
    ):
        module_in(tmp_path / "site-packages", "of_a_library", monkeypatch)


def test_the_modes_of_estimators_are_there_and_all_else_raises():
    estimator = Estimators("tensorflow.estimator")
    modes = estimator.ModeKeys
    assert (modes.TRAIN, modes.EVAL, modes.PREDICT) == ("train", "eval", "infer")
    with pytest.raises(NotImplementedError, match="TensorFlow has had no estimators since"):
        estimator.EstimatorSpec("train")
    with pytest.raises(NotImplementedError, match="`tensorflow.estimator.inputs` does not exist"):
        estimator.inputs.numpy_input_fn  # noqa: B018


def test_sizes_of_shapes_may_be_whole_floats():
    with sizes_may_be_floats():
        assert tf.TensorShape([3, 64 / 4]).as_list() == [3, 16]
        with pytest.raises(TypeError, match="got value '0.5'"):
            tf.TensorShape([0.5])
    with pytest.raises(TypeError, match="got value '16.0'"):
        tf.TensorShape([64 / 4])
