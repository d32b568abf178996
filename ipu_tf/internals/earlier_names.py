"""Names that TensorFlow's own modules had when scripts of the vendor's releases were written."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from tensorflow.python import pywrap_tensorflow
from tensorflow.python.framework import indexed_slices, ops, tensor, tensor_conversion_registry
from tensorflow.python.ops import (
    array_ops,
    array_ops_stack,
    cond,
    control_flow_assert,
    control_flow_case,
    control_flow_ops,
    control_flow_switch_case,
    functional_ops,
    map_fn,
    ref_variable,
    variable_v1,
    variables,
    while_loop,
)
from tensorflow.python.training import py_checkpoint_reader

MOVED: Sequence[tuple[ModuleType, ModuleType, tuple[str, ...]]] = (
    (array_ops, array_ops_stack, ("stack", "unstack")),
    (control_flow_ops, cond, ("cond",)),
    (control_flow_ops, control_flow_assert, ("Assert",)),
    (control_flow_ops, control_flow_case, ("case",)),
    (control_flow_ops, control_flow_switch_case, ("switch_case",)),
    (control_flow_ops, while_loop, ("while_loop",)),
    (functional_ops, map_fn, ("map_fn",)),
    (
        ops,
        indexed_slices,
        ("IndexedSlices", "convert_to_tensor_or_indexed_slices"),
    ),
    (ops, tensor, ("Tensor",)),
    (ops, tensor_conversion_registry, ("register_tensor_conversion_function",)),
    (pywrap_tensorflow, py_checkpoint_reader, ("NewCheckpointReader",)),
    (variables, ref_variable, ("RefVariable",)),
    (variables, variable_v1, ("VariableV1", "is_variable_initialized")),
)
"""Modules, each with the module that its former names moved to and these names."""
