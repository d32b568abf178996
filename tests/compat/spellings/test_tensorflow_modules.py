"""Names of TensorFlow's own modules that scripts import from where they were."""

import importlib
import sys

import pytest
import tensorflow as tf

from ipu_tf.compat.spellings.context import spellings_of_tensorflow

FORMER = {
    "ops.control_flow_ops": ["cond", "while_loop", "case", "switch_case", "Assert"],
    "pywrap_tensorflow": ["NewCheckpointReader"],
    "ops.array_ops": ["stack", "unstack"],
    "ops.functional_ops": ["map_fn"],
    "ops.variables": ["VariableV1", "RefVariable", "is_variable_initialized"],
    "framework.ops": ["Tensor", "IndexedSlices", "register_tensor_conversion_function"],
    "distribute.distribution_strategy_context": ["get_strategy", "get_replica_context"],
    "training.training_ops": ["resource_apply_adam"],
}

SCRIPT = """
from tensorflow.python.training.tracking import base, graph_view, tracking, util
assert util.Checkpoint and graph_view.ObjectGraphView and tracking.AutoTrackable and base.Trackable
"""


@pytest.mark.parametrize("module", FORMER)
def test_modules_have_the_names_that_moved(of_scripts, module):
    found = importlib.import_module(f"tensorflow.python.{module}")
    assert all(callable(getattr(found, name)) for name in FORMER[module])


def test_modules_are_imported_from_a_package_that_moved():
    with spellings_of_tensorflow():
        exec(SCRIPT, {})
    with pytest.raises(ImportError):
        exec(SCRIPT, {})


def test_names_that_moved_are_the_functions_of_today_and_go_with_the_context():
    control_flow = importlib.import_module("tensorflow.python.ops.control_flow_ops")
    with spellings_of_tensorflow():
        assert control_flow.cond(tf.constant(True), lambda: 1.0, lambda: 2.0) == 1.0
        assert control_flow.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x), [0, 1]) == (
            3,
            1,
        )
    assert not hasattr(control_flow, "cond")


def test_variables_tell_the_value_that_they_begin_with(of_scripts):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        first = v1.get_variable("first", initializer=v1.random_normal([3]), use_resource=True)
        copy = v1.get_variable("copy", initializer=2 * first.initialized_value(), use_resource=True)
        session.run(v1.global_variables_initializer())
        begun, doubled = session.run([first, copy])
        assert (doubled == 2 * begun).all()
        session.run(first.assign([1.0, 2.0, 3.0]))
        assert session.run(first.initialized_value()).tolist() == [1.0, 2.0, 3.0]


def test_a_variable_without_a_graph_has_its_value_from_the_beginning(of_scripts):
    assert tf.Variable(3.0).initialized_value() == 3


@pytest.mark.parametrize(
    ("old", "place"),
    [
        ("training.training_ops", "ops.gen_training_ops"),
        ("distribute.distribution_strategy_context", "distribute.distribute_lib"),
        ("training.tracking.data_structures", "trackable.data_structures"),
        ("training.tracking.tracking", "trackable.autotrackable"),
        ("training.saving.checkpoint_options", "checkpoint.checkpoint_options"),
        ("dtypes", "framework.dtypes"),
    ],
)
def test_modules_that_moved_are_in_their_old_places(old, place):
    python = "tensorflow.python"
    package, _, name = f"{python}.{old}".rpartition(".")
    loaded = set(sys.modules)
    with spellings_of_tensorflow():
        module = importlib.import_module(f"{python}.{place}")
        assert importlib.import_module(f"{python}.{old}") is module
        assert getattr(importlib.import_module(package), name) is module
    assert not [name for name in set(sys.modules) - loaded if name.startswith(f"{python}.{old}")]
    assert module.__name__ == f"{python}.{place}"
    with pytest.raises(ModuleNotFoundError, match="tensorflow.python"):
        importlib.import_module(f"{python}.{old}")
