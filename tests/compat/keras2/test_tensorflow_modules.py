"""Names of TensorFlow's own modules that scripts import from where they were."""

import importlib

import pytest
import tensorflow as tf

from ipu_tf.compat.keras2.context import keras_2_spellings

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


@pytest.mark.parametrize("module", FORMER)
def test_modules_have_the_names_that_moved(keras_2, module):
    found = importlib.import_module(f"tensorflow.python.{module}")
    assert all(callable(getattr(found, name)) for name in FORMER[module])


def test_names_that_moved_are_the_functions_of_today_and_go_with_the_context():
    control_flow = importlib.import_module("tensorflow.python.ops.control_flow_ops")
    with keras_2_spellings():
        assert control_flow.cond(tf.constant(True), lambda: 1.0, lambda: 2.0) == 1.0
        assert control_flow.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x), [0, 1]) == (
            3,
            1,
        )
    assert not hasattr(control_flow, "cond")
