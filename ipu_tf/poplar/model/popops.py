"""Costs of the vertices of popops and poprand, by the formulas of the compiler's lowering.

Their estimates hold what they work on: a count in the lower 32 bits, a second one above. The name
of a type says what it computes: `popops::Binary<popops::op::Add,float>`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine import vertices
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import Vertex
from ipu_tf.machine.vertices.inner_loops import FAMILY, LOOPS
from ipu_tf.poplar.model.graph import PoplarGraph

Work = NDArray[np.int64]
Formula = Callable[[list[str], Work, Work, Target], Vertex]

_TYPES = {
    "bool": "pred", "char": "s8", "signedchar": "s8", "unsignedchar": "u8", "short": "s16",
    "unsignedshort": "u16", "int": "s32", "unsigned": "u32", "unsignedint": "u32", "long": "s64",
    "unsignedlong": "u64", "longlong": "s64", "unsignedlonglong": "u64", "half": "f16",
    "float": "f32",
}  # fmt: skip

OPCODES = {
    "Abs": "abs", "Add": "add", "And": "and", "Asin": "tan", "Atan2": "atan2",
    "BitwiseAnd": "and", "BitwiseNot": "not", "BitwiseOr": "or", "BitwiseXnor": "xor",
    "BitwiseXor": "xor", "Cbrt": "cbrt", "Ceil": "ceil", "Clamp": "clamp", "Cos": "cosine",
    "CountLeadingZeros": "count-leading-zeros", "Divide": "divide", "Equal": "compare",
    "Erf": "erf", "Exp": "exponential", "Exp2": "exponential", "Expm1": "exponential-minus-one",
    "Floor": "floor", "GeluErf": "gelu", "Gt": "compare", "Gte": "compare", "Inv": "rsqrt",
    "InvStdDevToVariance": "divide", "IsFinite": "is-finite", "IsInf": "is-finite",
    "IsNaN": "is-finite", "Log": "log", "Log1p": "log-plus-one", "Lt": "compare",
    "Lte": "compare", "Max": "maximum", "Min": "minimum", "Mul": "multiply",
    "NearbyInt": "round-nearest-even", "Neg": "negate", "Not": "not", "NotEqual": "compare",
    "Or": "or", "Popcount": "popcnt", "Pow": "power", "Relu": "abs", "Rem": "remainder",
    "Round": "round-nearest-afz", "Rsqrt": "rsqrt", "Select": "select", "Shl": "shift-left",
    "Shr": "shift-right-logical", "ShrSE": "shift-right-arithmetic", "Sigmoid": "logistic",
    "Signum": "sign", "Sin": "sine", "Sqrt": "sqrt", "Square": "abs", "Sub": "subtract",
    "Tan": "tan", "Tanh": "tanh", "Trunc": "floor", "VarianceToInvStdDev": "divide",
}  # fmt: skip
"""HLO's opcodes. Modelled: operations that HLO does not have run as the nearest that it has."""

_SINGLE = re.compile(r"popops::(?:Unary|Binary|Ternary)<popops::op::(\w+),(\w+)(?:,\w+)?>")
_FUSED = re.compile(r"popops::Map_(\d+)_(\w+?)__(?:(\w+)__)?[0-9a-f]{16}")
_OTHER_VERTEX = re.compile(r"(popops|poprand)::(\w+)<([\w,:]+)>")


def estimates(graph: PoplarGraph, target: Target) -> NDArray[np.int64]:
    """Returns the estimate of each vertex, int64[vertices]; 0 for none."""
    cycles = graph.vertex_cycles.copy()
    for number, kind in enumerate(graph.types):
        of_type = graph.vertex_type == number
        vertex = popops_vertex(kind.name, cycles[of_type], target)
        if vertex is not None:
            cycles[of_type] = vertex.cycles
    return cycles


def code_bytes(graph: PoplarGraph, target: Target) -> NDArray[np.int64]:
    """Returns the bytes of the code of each type, int64[types]."""
    type_vertices = [popops_vertex(one.name, np.ones(1, np.int64), target) for one in graph.types]
    of_types = zip(graph.types, type_vertices, strict=True)
    return np.array(
        [vertex.code_bytes if vertex else one.code_bytes for one, vertex in of_types], np.int64
    )


def popops_vertex(name: str, work: Work, target: Target) -> Vertex | None:
    """Returns the cost of vertices of a type of popops, or None for other types.

    Args:
        name: The type.
        work: int64[vertices]: their estimates, as `SetWork` of ops/poplar/src/popops packs them.
        target: The machine.
    """
    count, second = work & 0xFFFFFFFF, work >> 32
    if single := _SINGLE.fullmatch(name):
        return vertices.elementwise(OPCODES[single[1]], count, _TYPES[single[2]], target)
    if fused := _FUSED.fullmatch(name):
        return _fused(fused, count, target)
    other = _OTHER_VERTEX.fullmatch(name)
    if other is None:
        return None
    first = other[3].partition(",")[0].rpartition("::")[2]
    kind = {"Draw": first, "MultiUpdate": f"Multi{first}"}.get(other[2], other[2])
    if kind not in _FORMULAS:
        return None
    types = [_TYPES[one] for one in other[3].split(",") if one in _TYPES]
    return _FORMULAS[kind](types, count, second, target)


def _fused(name: re.Match[str], count: Work, target: Target) -> Vertex:
    operations = []
    for word in (name[3] or "").split("__"):
        op, _, dtype = word.partition("_")
        if op in OPCODES:
            operations.append(
                (OPCODES[op], _computed_type(OPCODES[op], _TYPES[dtype.replace("_", "")]))
            )
    result = _TYPES[name[2].replace("_", "")]
    return vertices.fused(operations, count, result, target, operands=int(name[1]))


def _computed_type(opcode: str, dtype: str) -> str:
    """Returns the type that an operation computes in: float if it has no cost for its own."""
    families, dtype_family = LOOPS[opcode], FAMILY[dtype]
    has_own = dtype_family in families or ("int" in families and dtype_family in ("int64", "pred"))
    return dtype if has_own else "f32"


def _reduce(types: list[str], outputs: Work, depth: Work, target: Target) -> Vertex:
    """Returns the cost of a reduction; of single elements, that of a copy."""
    reduction = vertices.reduce(outputs, depth, types[0], target)
    copy = vertices.copy(outputs, types[0], target)
    return dataclasses.replace(reduction, cycles=np.where(depth > 1, reduction.cycles, copy.cycles))


def _one_hot(types: list[str], count: Work, _: Work, target: Target) -> Vertex:
    operations = [("compare", types[0]), ("select", types[1])]
    return vertices.fused(operations, count, types[1], target, operands=1)


def _scaled_add(types: list[str], count: Work, _: Work, target: Target) -> Vertex:
    operations = [("multiply", types[0]), ("add", types[0])]
    return vertices.fused(operations, count, types[0], target, operands=2)


def _updates(accumulate: bool) -> Formula:
    """Returns the cost of updates of rows that the workers share evenly."""

    def cost(types: list[str], columns: Work, offsets: Work, target: Target) -> Vertex:
        rows = target.workers
        return vertices.multi_update(
            columns, offsets, types[0], target, rows=rows, held_rows=rows, accumulate=accumulate
        )

    return cost


_FORMULAS: dict[str, Formula] = {
    "Bernoulli": lambda types, n, _, target: vertices.random_uniform(n, types[0], target),
    "Cast": lambda types, n, _, target: vertices.convert(n, types[0], types[1], target),
    "Fill": lambda types, n, _, target: vertices.fill(n, types[0], target),
    "Iota": lambda types, n, _, target: vertices.iota(n, types[0], target),
    "Dropout": lambda types, n, _, target: vertices.dropout(n, types[0], target),
    "DynamicSlice": lambda types, n, k, target: vertices.dynamic_slice(n, k, types[0], target),
    "DynamicUpdate": lambda types, n, k, target: vertices.dynamic_update(n, k, types[0], target),
    "MultiSlice": lambda types, n, k, target: vertices.multi_slice(n, k, types[0], target),
    "MultiAdd": _updates(accumulate=True),
    "MultiMax": _updates(accumulate=True),
    "MultiMul": _updates(accumulate=True),
    "MultiWrite": _updates(accumulate=False),
    "Normal": lambda types, n, _, target: vertices.random_normal(n, types[0], target),
    "OneHot": _one_hot,
    "Reduce": _reduce,
    "ScaledAdd": _scaled_add,
    "SetSeed": lambda types, n, _, target: vertices.fill(n, types[0], target),
    "TruncatedNormal": lambda types, n, _, target: vertices.random_truncated_normal(
        n, types[0], target
    ),
    "Uniform": lambda types, n, _, target: vertices.random_uniform(n, types[0], target),
}
