"""Arrays by name, as the C++ libraries write them."""

from __future__ import annotations

import io
import struct
from typing import BinaryIO


def read_records(content: bytes) -> dict[str, bytes]:
    """Returns the arrays of bytes that `GraphBytes` in graph_records.cc makes."""
    return read_from(io.BytesIO(content))


def read_from(stream: BinaryIO) -> dict[str, bytes]:
    """Reads the number of arrays, then the name, the size and the bytes of each.

    Raises:
        EOFError: The stream ends inside of them.
    """
    (count,) = struct.unpack("<I", exactly(stream, 4))
    records: dict[str, bytes] = {}
    for _ in range(count):
        (length,) = struct.unpack("<I", exactly(stream, 4))
        name = exactly(stream, length).decode()
        (size,) = struct.unpack("<Q", exactly(stream, 8))
        records[name] = exactly(stream, size)
    return records


def exactly(stream: BinaryIO, size: int) -> bytes:
    """Returns the next bytes of a stream.

    Raises:
        EOFError: It has fewer.
    """
    content = stream.read(size)
    if len(content) != size:
        raise EOFError("The program ended inside of a request.")
    return content
