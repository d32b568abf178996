"""Floating-point exceptions: `floating_point_behaviour.inv`, `div0` and `oflo`.

The machine traps; here a check after each op that computes floats fails the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.config import DeviceConfiguration
from ipu_tf.ops.kernels import library

_CHECK = "IpuFloatingPointCheck"

MOVES = frozenset(
    {
        _CHECK, "Placeholder", "Const", "Identity", "IdentityN", "ReadVariableOp", "Reshape",
        "Transpose", "Squeeze", "ExpandDims", "Pack", "Unpack", "ConcatV2", "Slice",
        "StridedSlice", "BroadcastTo", "Fill", "ZerosLike", "OnesLike", "StopGradient", "Gather",
        "GatherV2", "ResourceGather", "Tile", "Split", "SplitV", "Pad", "PadV2", "MirrorPad",
        "Select", "SelectV2", "TensorListStack", "TensorListGetItem", "TensorListPopBack",
        "TensorListFromTensor", "PartitionedCall", "StatefulPartitionedCall", "If",
        "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", "IteratorGetNext",
        "OptionalGetValue", "FakeParam", "CheckNumerics", "PreventGradient", "Bitcast", "ReverseV2",
        "IpuDequeue",
    }
)  # fmt: skip
"""Types of ops that only move or name values: a check would repeat their input's."""

DIVISORS: Mapping[str, int] = MappingProxyType(
    {
        "Div": 1, "RealDiv": 1, "FloorDiv": 1, "TruncateDiv": 1, "Xdivy": 1, "Reciprocal": 0,
        "Inv": 0, "Rsqrt": 0, "Log": 0, "Xlogy": 1,
    }
)  # fmt: skip
"""Types of ops that divide by an operand, or have a pole where it is 0, with its number; so the
kernel of the checks knows them (kDivisors, ops/tf/floating_point_check_op.cc)."""


def are_on(configuration: DeviceConfiguration) -> bool:
    """Returns whether any exception is on."""
    return configuration.inv or configuration.div0 or configuration.oflo


def add(op: tf.Operation, configuration: DeviceConfiguration, program: int) -> None:
    """Adds a check of `op` to its graph if the op computes floats.

    Args:
        op: The op.
        configuration: The device.
        program: The number of the program's tracer.
    """
    if op.type in MOVES or not any(output.dtype.is_floating for output in op.outputs):
        return
    with op.graph.as_default(), tf.name_scope(f"{op.name}_float_check/"):
        library.load().ipu_floating_point_check(
            inputs=_floats(op.inputs),
            outputs=_floats(op.outputs),
            op_name=op.name,
            op_type=op.type.removeprefix("Ipu"),
            program=program,
            inv=configuration.inv,
            div0=configuration.div0,
            oflo=configuration.oflo,
        )


def _floats(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    return [tensor for tensor in tensors if tensor.dtype in (tf.float32, tf.float16)]
