"""Values of small constants, as NumPy arrays."""

from __future__ import annotations

import numpy as np

from ipu_tf.compiler.hlo.module import Array
from ipu_tf.compiler.hlo.proto_fields import LiteralProto, ShapeProto

MAX_ELEMENTS = 256
"""Constants of more elements keep only their type: no pass folds them, and weights are not
constants."""

NUMPY_DTYPES = {
    "pred": np.bool_, "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16,
    "s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "c64": np.complex64,
    # NumPy has no such types; their values fit a float32.
    "bf16": np.float32, "f8e4m3": np.float32, "f8e5m2": np.float32,
}  # fmt: skip
"""The NumPy type of a literal, by HLO's name of its type."""

_REPEATED = {
    "pred": "preds", "s32": "s32s", "s64": "s64s", "u32": "u32s", "u64": "u64s", "f32": "f32s",
    "f64": "f64s",
}  # fmt: skip
_BYTES = {
    "s8": ("s8s", "i1"), "u8": ("u8s", "u1"), "s16": ("s16s", "<i2"), "u16": ("u16s", "<u2"),
    "f16": ("f16s", "<f2"),
}  # fmt: skip


def from_proto(literal: LiteralProto, type_: Array) -> np.ndarray | None:
    """Returns the value of a LiteralProto, or None if it is not kept.

    Large values and values of types that NumPy lacks are not kept.

    Args:
        literal: The proto.
        type_: Type of the constant.
    """
    if type_.elements > MAX_ELEMENTS:
        return None
    dtype = type_.dtype
    values: np.ndarray
    if dtype in _REPEATED:
        values = np.array(getattr(literal, _REPEATED[dtype]), dtype=NUMPY_DTYPES[dtype])
    elif dtype in _BYTES:
        field, layout = _BYTES[dtype]
        values = np.frombuffer(getattr(literal, field), dtype=layout).astype(NUMPY_DTYPES[dtype])
    elif dtype == "bf16":
        halves = np.frombuffer(literal.bf16s, dtype="<u2").astype(np.uint32)
        values = (halves << 16).view(np.float32)
    else:
        return None
    return _in_row_major_order(values, literal.shape, type_)


def _in_row_major_order(values: np.ndarray, shape: ShapeProto, type_: Array) -> np.ndarray:
    """Returns flat values, stored in the layout of `shape`, as an array of the type's dims."""
    order = list(shape.layout.minor_to_major) or list(reversed(range(len(type_.dims))))
    major_to_minor = order[::-1]
    in_memory = values.reshape([type_.dims[dim] for dim in major_to_minor])
    return np.array(in_memory.transpose(np.argsort(major_to_minor)), order="C")


def to_text(value: np.ndarray) -> str:
    """Returns the elements of a literal in row-major order, in braces if there are several."""
    # NumPy's own text of a number is the shortest that reads back to it.
    texts = [str(element).lower() for element in value.ravel()]
    return texts[0] if value.ndim == 0 else "{" + ", ".join(texts) + "}"


def parse(text: str, type_: Array) -> np.ndarray:
    """Returns the literal that `to_text` wrote.

    Raises:
        ValueError: The text is not of the type.
    """
    elements = [part.strip() for part in text.strip("{} ").split(",") if part.strip()]
    if len(elements) != type_.elements:
        raise ValueError(
            f"A constant of {type_} has {type_.elements} elements. Received: {len(elements)}."
        )
    if type_.dtype == "pred":
        values = np.array([element == "true" for element in elements], np.bool_)
    elif type_.dtype.startswith(("s", "u")):
        values = np.array([int(element) for element in elements], NUMPY_DTYPES[type_.dtype])
    else:
        values = np.array(elements, NUMPY_DTYPES[type_.dtype])
    return values.reshape(type_.dims)
