"""Inner loops of element-wise vertices: instruction slots for so many elements of one worker.

Source: the performance tables of poplibs 3.4 (popops cycle estimators). Entries marked "modelled"
are not in them. Costs that depend on the data (sine, power, division of integers) are the means
that the authors simulated, for sine and cosine over (-pi, pi). The machine has no instruction for
these two: f32 calls the library, f16 divides two polynomials.
"""

from __future__ import annotations

from typing import NamedTuple


class InnerLoop(NamedTuple):
    """An inner loop: instruction slots per number of elements."""

    slots: int
    elements: int


FAMILY = {
    "f32": "f32", "f16": "f16",
    "bf16": "f16", "f8e4m3": "f16", "f8e5m2": "f16",
    "s32": "int", "u32": "int", "s16": "int", "u16": "int", "s8": "int", "u8": "int",
    "s64": "int64", "u64": "int64",
    "pred": "pred",
}  # fmt: skip
"""The column of the tables that a type reads. Modelled: small integers run as 32-bit ones,
8-bit and brain floats as f16."""


def _float(f32: tuple[int, int], f16: tuple[int, int]) -> dict[str, InnerLoop]:
    return {"f32": InnerLoop(*f32), "f16": InnerLoop(*f16)}


_INT_BINARY = {"int": InnerLoop(7, 1)}
_BITWISE = {"int": InnerLoop(7, 1), "pred": InnerLoop(5, 4)}

UNARY: dict[str, dict[str, InnerLoop]] = {
    "abs": {**_float((2, 2), (2, 4)), "int": InnerLoop(5, 1)},
    "cbrt": _float((312, 1), (325, 1)),  # modelled: as power
    "ceil": _float((2, 2), (2, 4)),
    "cosine": _float((2300, 1), (26, 1)),  # as sine
    "count-leading-zeros": {"int": InnerLoop(3, 1)},
    "erf": _float((41, 1), (13, 1)),
    "exponential": _float((6, 2), (4, 4)),
    "exponential-minus-one": _float((8, 2), (5, 4)),
    "floor": _float((2, 2), (2, 4)),
    "gelu": _float((22, 1), (16, 1)),
    "gelu-tanh": _float((20, 2), (10, 4)),  # popnn: 10 slots a word, 5 for two halves
    "is-finite": _float((5, 2), (5, 4)),
    "log": _float((12, 2), (4, 4)),
    "log-plus-one": _float((180, 2), (180, 4)),
    "logistic": _float((12, 2), (6, 4)),
    "negate": {**_float((2, 2), (2, 4)), "int": InnerLoop(2, 1)},
    "not": {"int": InnerLoop(3, 1), "pred": InnerLoop(17, 4)},
    "popcnt": {"int": InnerLoop(3, 1)},
    "reduce-precision": _float((4, 2), (4, 4)),  # modelled: to f16 and back
    "round-nearest-afz": _float((4, 2), (4, 4)),
    "round-nearest-even": _float((4, 2), (4, 4)),
    "rsqrt": _float((8, 2), (19, 4)),
    "sign": {**_float((5, 2), (5, 4)), "int": InnerLoop(5, 1)},
    "sine": _float((2300, 1), (26, 1)),
    "sqrt": _float((10, 2), (23, 4)),
    "tan": _float((3900, 1), (3900, 1)),
    "tanh": _float((12, 2), (4, 4)),
}

BINARY: dict[str, dict[str, InnerLoop]] = {
    "add": {**_float((3, 2), (3, 4)), **_INT_BINARY},
    "and": _BITWISE,
    "atan2": _float((272, 2), (578, 4)),
    "compare": {
        **_float((14, 4), (9, 4)), "int": InnerLoop(22, 4), "pred": InnerLoop(6, 4),
    },
    "divide": {**_float((10, 2), (21, 4)), "int": InnerLoop(277, 1)},
    "gate": _float((3, 2), (3, 4)),  # popnn: the gradient of a ReLU, two loads and a store
    "gelu-grad": _float((29, 1), (19, 1)),  # modelled: a unit, an exponential and four products
    "gelu-tanh-grad": _float((38, 2), (19, 4)),  # modelled: popnn counts 15 flops, 8 for the unit
    "maximum": {**_float((4, 2), (4, 4)), "int": InnerLoop(7, 1)},
    "minimum": {**_float((4, 2), (4, 4)), "int": InnerLoop(7, 1)},
    "multiply": {**_float((3, 2), (3, 4)), **_INT_BINARY},
    "or": _BITWISE,
    "power": {**_float((312, 1), (325, 1)), "int": InnerLoop(325, 1)},  # int modelled as f16
    "remainder": {**_float((133, 2), (300, 4)), "int": InnerLoop(292, 1)},
    "shift-left": _INT_BINARY,
    "shift-right-arithmetic": _INT_BINARY,
    "shift-right-logical": _INT_BINARY,
    "subtract": {**_float((3, 2), (3, 4)), **_INT_BINARY},
    "xor": _BITWISE,
}  # fmt: skip

TERNARY: dict[str, dict[str, InnerLoop]] = {
    "clamp": {
        **_float((6, 2), (6, 4)),
        "int": InnerLoop(9, 1),
    },  # modelled: a maximum and a minimum
    "select": {**_float((5, 1), (5, 1)), "int": InnerLoop(5, 1)},
}

LOOPS = {**UNARY, **BINARY, **TERNARY}
ARITY = {
    **dict.fromkeys(UNARY, 1),
    **dict.fromkeys(BINARY, 2),
    **dict.fromkeys(TERNARY, 3),
}
