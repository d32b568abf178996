"""Assignments of sums and differences as what they stand for: a read, an operation, an assignment.

`AssignSubVariableOp` hides the difference in an operation with effects. As an operation of its own,
it can be joined with the steps of an optimizer before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.internals.tensorflow import get_resource_handle_data
from ipu_tf.runtime.tracing.op_request import OpRequest

_STEPS: Mapping[str, tuple[str, frozenset[str]]] = MappingProxyType(
    {
        "AssignSubVariableOp": ("Sub", frozenset({"Mul", "RealDiv"})),
        "AssignAddVariableOp": ("AddV2", frozenset({"IpuMatMul", "Mul", "ReadVariableOp"})),
    }
)
"""For the types of assignments, the operation in them, and the last ones of steps of optimizers.

A step of momentum is the velocity as it is read after its own update. A product is a gradient that
is added to a sum.
"""

ASSIGNMENTS = frozenset(_STEPS)
"""Types of the ops that `split_assignment` takes apart."""


def split_assignment(request: OpRequest) -> OpRequest:
    """Returns an assignment of a sum or difference, which is created before it.

    The operation gets the name of the request, so the program for the machine is the same. Values
    that are none of these in float32 are left as they are, as are those of other shapes
    than the variable's, which TensorFlow refuses.
    """
    handle, value = request.inputs
    op_type, last_steps = _STEPS[request.op_type]
    if value.op.type not in last_steps or not _fits(handle, value):
        return request
    name = f"{request.name}/"
    result = getattr(tf.raw_ops, op_type)(x=_value_of(handle), y=value, name=name)
    return _assignment(request, result)


def split_descent(request: OpRequest) -> OpRequest:
    """Returns the assignment of a `ResourceApplyGradientDescent`: of weights less rate x gradient.

    Values that do not fit are left as they are, as in `split_assignment`.
    """
    handle, rate, gradient = request.inputs
    if rate.shape.rank != 0 or not _fits(handle, gradient):
        return request
    step = tf.raw_ops.Mul(x=gradient, y=rate, name=f"{request.name}_step/")
    result = tf.raw_ops.Sub(x=_value_of(handle), y=step, name=f"{request.name}/")
    return _assignment(request, result)


def _fits(handle: tf.Tensor, value: tf.Tensor) -> bool:
    """Returns whether a float32 tensor has the shape of a variable, and that is known."""
    if value.dtype != tf.float32 or not value.shape.rank or not value.shape.is_fully_defined():
        return False
    return _shape_of_variable(handle) == value.shape


def _assignment(request: OpRequest, result: tf.Tensor) -> OpRequest:
    dtype = tf.compat.v1.AttrValue(type=result.dtype.as_datatype_enum)
    inputs = [request.inputs[0], result]
    assignment = request.with_changes("AssignVariableOp", inputs=inputs, attrs={"dtype": dtype})
    return dataclasses.replace(assignment, name=f"{request.name}/assign")


def _value_of(handle: tf.Tensor) -> tf.Tensor:
    """Returns what a variable holds: the last read of it, if nothing else uses it before."""
    users = handle.consumers()
    if users and all(user.type == "ReadVariableOp" for user in users):
        return users[-1].outputs[0]
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)


def _shape_of_variable(handle: tf.Tensor) -> tf.TensorShape | None:
    data = get_resource_handle_data(handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return tf.TensorShape(data.shape_and_type[0].shape)
