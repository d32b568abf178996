"""The configuration of the model that a SavedModel of Keras 2 keeps.

Keras 2 wrote it as a protocol buffer of its own, `keras_metadata.pb`, which neither TensorFlow nor
Keras 3 can read: a list (field 1) of objects with a path (field 3) and a JSON text (field 5).
Earlier versions wrote the text into the graph of objects of `saved_model.pb`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ipu_tf.internals.tensorflow import SavedModelProto

_FILE = "keras_metadata.pb"
_NODES, _PATH, _TEXT = 1, 3, 5
_ROOT = b"root"
_VARINT, _BYTES = 0, 2


def metadata_of(folder: str) -> str | None:
    """Returns the JSON text that describes the model of a SavedModel; None without one."""
    file = Path(folder) / _FILE
    if file.exists():
        nodes = (dict(_fields(node)) for number, node in _fields(file.read_bytes()))
        found = next((node[_TEXT] for node in nodes if node.get(_PATH) == _ROOT), None)
        return None if found is None else found.decode()
    saved = SavedModelProto.FromString((Path(folder) / "saved_model.pb").read_bytes())
    root = saved.meta_graphs[0].object_graph_def.nodes[0]
    return root.user_object.metadata or None


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the numbers and the bytes of the fields of a message; whole numbers are left out.

    Raises:
        ValueError: The message has fields of other types.
    """
    position = 0
    while position < len(message):
        key, position = _number_at(message, position)
        length, position = _number_at(message, position)
        if key & 7 == _VARINT:
            continue
        if key & 7 != _BYTES:
            raise ValueError(
                f"{_FILE} is no message of strings and whole numbers: field {key >> 3} is of type "
                f"{key & 7}. Give the directory that Keras 2 wrote."
            )
        yield key >> 3, message[position : position + length]
        position += length


def _number_at(message: bytes, position: int) -> tuple[int, int]:
    """Returns a whole number of seven bits a byte, and the position after it."""
    number = shift = 0
    while True:
        byte = message[position]
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return number, position
