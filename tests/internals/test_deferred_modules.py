"""Modules that run at the first use of one of their names, and behave as ever from then on."""

import importlib
import subprocess
import sys

import pytest

from ipu_tf.internals import deferred_modules as deferral
from ipu_tf.internals.deferred_modules import deferred_modules

SOURCE = """
import sys
sys.runs_of_late = getattr(sys, "runs_of_late", 0) + 1
from late import part
answer = 42 + part.one
"""


@pytest.fixture
def late(monkeypatch, tmp_path):
    """A package `late` that is deferred, and that no import has run yet."""
    package = tmp_path / "late"
    package.mkdir()
    (package / "__init__.py").write_text(SOURCE)
    (package / "part.py").write_text("one = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(deferral, "DEFERRED", frozenset({"late", "missing_late"}))
    monkeypatch.setattr(sys, "runs_of_late", 0, raising=False)
    yield importlib.import_module
    for name in ("late", "late.part"):
        sys.modules.pop(name, None)


def test_a_module_runs_once_and_at_the_first_use_of_a_name(late):
    with deferred_modules():
        module = late("late")
        assert late("late") is module
    assert sys.runs_of_late == 0
    assert module.answer == 43
    assert module.part.one == 1
    assert late("late") is module
    assert sys.runs_of_late == 1
    assert type(module) is type(sys)


def test_a_part_of_a_deferred_module_is_imported_as_ever(late):
    with deferred_modules():
        assert late("late.part").one == 1


def test_a_name_that_a_deferred_module_lacks_is_missing(late):
    with deferred_modules():
        module = late("late")
    with pytest.raises(AttributeError, match="module 'late' has no attribute 'question'"):
        module.question  # noqa: B018


def test_a_module_that_is_not_installed_is_missing(late):
    with deferred_modules(), pytest.raises(ModuleNotFoundError, match="missing_late"):
        late("missing_late")


def test_imports_outside_run_at_once(late):
    with deferred_modules():
        pass
    assert late("late").answer == 43
    assert sys.runs_of_late == 1


def test_the_deferred_modules_exist():
    for name in deferral.DEFERRED:
        assert importlib.util.find_spec(name), name


@pytest.mark.slow
def test_keras_loads_without_the_libraries_of_features_that_are_not_used():
    code = """
import sys
from ipu_tf.internals.deferred_modules import deferred_modules
with deferred_modules():
    import keras
loaded = {"sklearn", "matplotlib", "pandas"} & set(sys.modules)
assert not loaded, loaded
from keras.src.trainers.data_adapters import array_slicing
array_slicing.can_slice_array(1)
assert "pandas" in sys.modules
assert keras.wrappers.SKLearnClassifier.__name__ == "SKLearnClassifier"
assert callable(keras.visualization.plot_image_gallery)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
