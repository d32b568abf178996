"""Ops that XLA is slow to translate, and the nodes that replace them while it reads a program.

XLA makes a new compiler for each of these ops, which takes some five milliseconds; other ops take
a tenth of one. Each op is replaced by ops that XLA translates to the same HLO, or by a single
instruction that is then replaced. The nodes' names, which HLO keeps, tell the original op.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.internals.tensorflow import NodeDef
from ipu_tf.ops.kernels.chains import Chain, Expand

_MARK = "/ipu_tf."
_NAME = re.compile(rf"(.*){_MARK}(\w+?)_\d+_\w+")
# XLA names the computation of a sum after the op.
_COMPUTATION = re.compile(rf".*_{re.escape(_MARK[1:])}\w+?_\d+_")
_DTYPES = frozenset(t.as_datatype_enum for t in (tf.float16, tf.bfloat16, tf.float32))


def _zero(chain: Chain) -> str:
    return _constant(chain, 0.0)


def _constant(chain: Chain, value: float) -> str:
    return chain.constant(value, tf.as_dtype(chain.attribute("T").type))


def _relu(chain: Chain) -> Sequence[str]:
    return [chain.add("Maximum", *chain.inputs, _zero(chain))]


def _relu6(chain: Chain) -> Sequence[str]:
    return [chain.add("ClipByValue", *chain.inputs, _zero(chain), _constant(chain, 6.0))]


def _relu_gradient(chain: Chain) -> Sequence[str]:
    gradient, features = chain.inputs
    zero = _zero(chain)
    return [chain.add("SelectV2", chain.add("Greater", features, zero), gradient, zero)]


def _bias_gradient(chain: Chain) -> Sequence[str]:
    (gradient,) = chain.inputs
    one = chain.constant(1, tf.int32)
    last = chain.add("Sub", chain.add("Rank", gradient), one, T=tf.int32)
    axes = chain.add("Range", chain.constant(0, tf.int32), last, one)
    return [chain.add("Sum", gradient, axes)]


def _power(exponent: float) -> Expand:
    return lambda chain: [chain.add("Pow", *chain.inputs, _constant(chain, exponent))]


def _exponential(chain: Chain) -> Sequence[str]:
    return [chain.add("Pow", _constant(chain, math.e), *chain.inputs)]


def _negative(chain: Chain) -> Sequence[str]:
    return [chain.add("Neg", *chain.inputs)]


_STAND_INS: Mapping[str, Expand] = MappingProxyType(
    {
        "BiasAddGrad": _bias_gradient,
        # XLA may need a size that was computed with one of these three: their values are correct.
        # No size is computed with the last two.
        "Exp": _exponential,
        "Rsqrt": _power(-0.5),
        "Sqrt": _power(0.5),
        "Relu": _relu,
        "Relu6": _relu6,
        "ReluGrad": _relu_gradient,
        "Sigmoid": _negative,
        "Tanh": _negative,
    }
)

_INSTRUCTIONS: Mapping[str, tuple[str, str, int]] = MappingProxyType(
    {
        "Exp": ("power", "exponential", 1),
        "Rsqrt": ("power", "rsqrt", 0),
        "Sqrt": ("power", "sqrt", 0),
        "Sigmoid": ("negate", "logistic", 0),
        "Tanh": ("negate", "tanh", 0),
    }
)
"""By the type of an op: the opcode that stands for it, its own, and which operand is its own."""


def has_stand_in(node: NodeDef) -> bool:
    """Returns whether a node of a FunctionDef has stand-ins."""
    if node.op not in _STAND_INS or node.attr["T"].type not in _DTYPES:
        return False
    return "data_format" not in node.attr or node.attr["data_format"].s == b"NHWC"


def stand_in(node: NodeDef) -> tuple[list[NodeDef], str]:
    """Returns the stand-ins of a node, and the name of their result in a FunctionDef."""
    marked = NodeDef()
    marked.CopyFrom(node)
    marked.name = f"{node.name}{_MARK}{node.op}"
    chain = Chain(marked)
    (result,) = _STAND_INS[node.op](chain)
    return chain.nodes, result


def changes(instruction: Instruction) -> dict[str, tf.compat.v1.AttrValue]:
    """Returns the changes that make an instruction of a stand-in that of the original op."""
    if _MARK not in instruction.op_name:
        return {}
    match = _NAME.fullmatch(instruction.op_name)
    if match is None:
        return {}
    changes: dict[str, Any] = {"op_name": match[1], "op_type": match[2]}
    opcode, own_opcode, operand = _INSTRUCTIONS.get(match[2], ("", "", 0))
    if instruction.opcode == opcode:
        changes |= {"opcode": own_opcode, "operands": (instruction.operands[operand],)}
    elif instruction.opcode == "constant" and match[2] == "BiasAddGrad":
        # XLA begins the sum of such a gradient at -0, other sums at 0.
        literal = np.asarray(-instruction.attributes["literal"])
        changes["attributes"] = {**instruction.attributes, "literal": literal}
    return changes


def plain_name(computation: str) -> str:
    """Returns the name of a computation without the mark of the original op."""
    return _COMPUTATION.sub("", computation)
