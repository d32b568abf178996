"""Modules are loaded without garbage collection; what lives then is not looked at again."""

import ast
import gc
import inspect
import sys

import pytest

from ipu_tf.base.loading import loading
from ipu_tf.cli import estimate
from ipu_tf.sweep import worker


@pytest.fixture
def unloaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_nothing_is_collected_while_modules_load_and_they_are_frozen(unloaded):
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] > 100_000


def test_collection_goes_on_where_loading_fails(unloaded):
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_objects_of_a_process_that_has_loaded_tensorflow_stay_as_they_are(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", gc)
    with loading():
        assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(
    ("module", "imported"),
    [(estimate, "ipu_tf.estimation"), (worker, "ipu_tf.sweep.evaluate")],
)
def test_commands_that_estimate_load_so(module, imported):
    blocks = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.With)
        and [*map(ast.unparse, node.items)] == ["loading()", "deferred_modules()"]
    ]
    assert any(imported in block for block in blocks)
