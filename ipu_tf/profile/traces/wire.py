"""The wire format of protocol buffers: the fields of a message to bytes.

A message is written as the concatenation of its fields; the callers know their numbers.
"""

from __future__ import annotations

_VARINT = 0
_BYTES = 2
_BITS = 64


def integer(number: int, value: int) -> bytes:
    """Returns a field of type int64, uint64, int32, uint32, bool or enum."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def text(number: int, value: str) -> bytes:
    """Returns a field of type string; half surrogate pairs, which are no UTF-8, become `?`."""
    return message(number, value.encode("utf-8", "replace"))


def message(number: int, *fields: bytes) -> bytes:
    """Returns a field that is a message, from the fields of that message."""
    size = sum(map(len, fields))
    return b"".join((_varint(number << 3 | _BYTES), _varint(size), *fields))


def _varint(value: int) -> bytes:
    """Returns an integer of at most 64 bits, seven bits a byte, the low ones first."""
    bits = value & ((1 << _BITS) - 1)
    encoding = bytearray()
    while bits > 0x7F:
        encoding.append(bits & 0x7F | 0x80)
        bits >>= 7
    encoding.append(bits)
    return bytes(encoding)
