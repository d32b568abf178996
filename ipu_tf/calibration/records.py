"""Measured points as values, read from JSON and checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class RecordError(ValueError):
    """A file of records cannot be used; the message says which entry and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One measured point.

    Attributes:
        id: Unique in its file.
        kind: What was measured, such as "conv_forward".
        chip: Chip it was measured on.
        params: Sizes, by name.
        dtype: Type of the operands as the source writes it, such as "f16 x f16 -> f16 partials".
        measured: The figure.
        unit: Its unit, such as "us" or "TFLOPS (whole IPU)".
        n_ipus: Number of IPUs that took part.
        what: The measurement in words.
        source: Where the figure is published.
    """

    id: str
    kind: str
    chip: str
    params: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "-"
    measured: float
    unit: str
    n_ipus: int = 1
    what: str = ""
    source: str = ""

    @property
    def text(self) -> str:
        """Everything that the record says in words, in lower case: sizes are in `params`."""
        words = [self.id, self.what, *(str(value) for value in self.params.values())]
        return " ".join(words).lower().replace("_", " ").replace("-", " ")


_REQUIRED = {"id": str, "kind": str, "chip": str, "measured": (int, float), "unit": str}
_OPTIONAL = {
    "params": Mapping, "dtype": str, "n_ipus": int, "what": str, "source": str,
}  # fmt: skip


def load_records(path: str | Path) -> tuple[Record, ...]:
    """Returns the records of a JSON file, a list of objects; fields it does not know are left.

    Raises:
        RecordError: The file cannot be read, is not such a list, or an entry lacks a field, has
            one of another type, a figure that is not positive, or an id that another entry has.
    """
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"Cannot read the records of {path}: {error.strerror}.") from error
    except ValueError as error:
        raise RecordError(f"{path} is not JSON: {error}. Write a list of records.") from error
    if not isinstance(entries, list):
        raise RecordError(
            f"{path} must hold a list of records. Received: {type(entries).__name__}."
        )
    records = tuple(_record(entry, f"{path}, entry {at}") for at, entry in enumerate(entries))
    seen: set[str] = set()
    for record in records:
        if record.id in seen:
            raise RecordError(f"{path} has two records of the id {record.id!r}. Rename one.")
        seen.add(record.id)
    return records


def _record(entry: Any, where: str) -> Record:
    if not isinstance(entry, dict):
        raise RecordError(f"{where}: a record is an object. Received: {entry!r}.")
    if isinstance(entry.get("id"), str):
        where = f"{where} ({entry['id']})"
    entry = {name: value for name, value in entry.items() if value is not None}
    for name, kind in {**_REQUIRED, **_OPTIONAL}.items():
        if name not in entry:
            if name in _REQUIRED:
                raise RecordError(f"{where}: the field {name!r} is missing. Add it.")
        elif not isinstance(entry[name], kind) or isinstance(entry[name], bool):  # type: ignore[arg-type]
            wanted = "a number" if name in ("measured", "n_ipus") else _written(name)
            raise RecordError(f"{where}: {name!r} must be {wanted}. Received: {entry[name]!r}.")
    record = Record(**{name: entry[name] for name in (*_REQUIRED, *_OPTIONAL) if name in entry})
    if not (math.isfinite(record.measured) and record.measured > 0):
        raise RecordError(f"{where}: 'measured' must be positive. Received: {record.measured!r}.")
    if record.n_ipus < 1:
        raise RecordError(f"{where}: 'n_ipus' must be positive. Received: {record.n_ipus!r}.")
    if not record.unit.strip():
        raise RecordError(f"{where}: 'unit' must be a unit, such as 'us'. Received: ''.")
    return record


def _written(name: str) -> str:
    return "an object" if name == "params" else "a text"
