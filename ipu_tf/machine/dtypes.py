"""Sizes of the types of elements in tile memory, by HLO's names and by those of products."""

from __future__ import annotations

DTYPE_BITS = {
    "pred": 8, "s8": 8, "u8": 8, "f8e4m3": 8, "f8e5m2": 8, "s16": 16, "u16": 16, "f16": 16,
    "bf16": 16, "s32": 32, "u32": 32, "f32": 32, "s64": 64, "u64": 64, "f64": 64, "c64": 64,
    "c128": 128, "token": 0,
}  # fmt: skip
"""Bits of one element in tile memory, by HLO's name of the type."""

_PRODUCTS = {"float32": "f32", "float16": "f16", "float8": "f8e4m3"}
"""The types that the tiles multiply, by TensorFlow's names."""

INPUT_BYTES = {name: DTYPE_BITS[hlo] // 8 for name, hlo in _PRODUCTS.items()}
"""Bytes of the inputs and the partials of products, by the name of their type."""

_WITHOUT_VERTICES = frozenset({"f64", "c64", "c128", "token"})
_WORD_BYTES = 4


def dtype_bytes(dtype: str) -> int:
    """Returns the bytes of an element in tile memory, by HLO's name of its type.

    Raises:
        ValueError: Tiles have no arithmetic for the type.
    """
    if dtype not in DTYPE_BITS or dtype in _WITHOUT_VERTICES:
        names = (name for name in DTYPE_BITS if name not in _WITHOUT_VERTICES)
        narrow = (name for name in names if DTYPE_BITS[name] <= 8 * _WORD_BYTES)
        raise ValueError(
            f"Vertices have no arithmetic for {dtype!r}: an IPU computes with at most 32 bits. "
            f"Cast to one of {', '.join(narrow)}. Received: {dtype!r}."
        )
    return DTYPE_BITS[dtype] // 8
