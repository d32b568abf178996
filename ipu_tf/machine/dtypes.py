"""Sizes of the types of elements in tile memory, by HLO's names and by those of products."""

from __future__ import annotations

DTYPE_BITS = {
    "pred": 8, "s8": 8, "u8": 8, "f8e4m3": 8, "f8e5m2": 8, "s16": 16, "u16": 16, "f16": 16,
    "bf16": 16, "s32": 32, "u32": 32, "f32": 32, "s64": 64, "u64": 64, "f64": 64, "c64": 64,
    "c128": 128, "token": 0,
}  # fmt: skip
"""Bits of one element in tile memory, by HLO's name of the type."""

HLO_NAMES = {"float32": "f32", "float16": "f16", "float8": "f8e4m3"}
"""HLO's names of the types that the tiles multiply, by TensorFlow's names."""

INPUT_BYTES = {name: DTYPE_BITS[hlo] // 8 for name, hlo in HLO_NAMES.items()}
"""Bytes of the inputs and the partials of products, by the name of their type."""
