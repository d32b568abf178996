"""Draws the random numbers of XLA, one operation at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.internals.tensorflow import NodeDef, OpDef

_FIXED = frozenset({"shape", "alg", "num_samples"})
"""The operands that XLA needs when it compiles an operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XlaDraw:
    """A random operation without state, as XLA computes it.

    Attributes:
        op_type: Its TensorFlow type.
        operands: Names of its operands.
        types: Attributes that are types of its results.
    """

    op_type: str
    operands: tuple[str, ...]
    types: tuple[tuple[str, tf.DType], ...]

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        """Returns its results."""
        operands = dict(zip(self.operands, values, strict=True))
        fixed = {name: value for name, value in operands.items() if name in _FIXED}
        tensors_by_name = {name: value for name, value in operands.items() if name not in _FIXED}

        @tf.function(jit_compile=True)
        def draw(tensors: Any) -> Any:
            return getattr(tf.raw_ops, self.op_type)(**fixed, **tensors, **dict(self.types))

        results = draw({name: tf.constant(value) for name, value in tensors_by_name.items()})
        return [result.numpy() for result in tf.nest.flatten(results)]


def draw_of(node: NodeDef, op_def: OpDef) -> XlaDraw:
    """Returns the draw of a node of a FunctionDef."""
    input_types = {one.type_attr for one in op_def.input_arg}
    types = [one.name for one in op_def.attr if one.type == "type" and one.name not in input_types]
    return XlaDraw(
        op_type=node.op,
        operands=tuple(argument.name for argument in op_def.input_arg),
        types=tuple((name, tf.as_dtype(node.attr[name].type)) for name in types),
    )
