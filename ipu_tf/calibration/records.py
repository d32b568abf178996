"""Measured points as values, read from JSON and checked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipu_tf.calibration.corrections import Correction, CorrectionError, correction_of
from ipu_tf.calibration.measurement_numbers import LARGEST, is_out_of_range


class RecordError(ValueError):
    """A file of records cannot be used; the message says which entry and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """One measured point.

    Attributes:
        id: Unique in its file.
        kind: The kind of measurement, such as "conv_forward".
        chip: Chip it was measured on.
        params: Sizes, by name.
        dtype: Type of the operands as the source writes it, such as "f16 x f16 -> f16 partials".
        measured: The figure.
        unit: Its unit, such as "us" or "TFLOPS (whole IPU)".
        n_ipus: Number of IPUs that took part.
        what: The measurement in words.
        source: The publication of the figure.
        correction: Published facts of the measurement that contradict the record; None if there
            are none.
    """

    id: str
    kind: str
    chip: str
    params: Mapping[str, object] = field(default_factory=dict)
    dtype: str = "-"
    measured: float
    unit: str
    n_ipus: int = 1
    what: str = ""
    source: str = ""
    correction: Correction | None = None

    @property
    def corrected(self) -> MeasuredPoint:
        """The record with the published facts of its measurement."""
        correction = self.correction
        if correction is None:
            return self
        params = {**self.params, **correction.params}
        return dataclasses.replace(self, chip=correction.chip, params=params, correction=None)

    @property
    def text(self) -> str:
        """All text of the record, in lower case; sizes are in `params`."""
        words = [self.id, self.what, *(str(value) for value in self.params.values())]
        return " ".join(words).lower().replace("_", " ").replace("-", " ")


_REQUIRED = {"id": str, "kind": str, "chip": str, "measured": (int, float), "unit": str}
_OPTIONAL = {
    "params": Mapping, "dtype": str, "n_ipus": int, "what": str, "source": str,
}  # fmt: skip


_SECTIONS: Mapping[str, tuple[type, str]] = {
    "records": (list, "a list"),
    "corrections": (list, "a list"),
    "what": (str, "a text"),
    "networks": (dict, "an object"),
}
"""The sections of a file: type, and its name; the last two are words for readers."""


def load_records(path: str | Path) -> tuple[MeasuredPoint, ...]:
    """Returns the records of a JSON file.

    The file holds a list of objects, or an object of that list as "records" and a list of
    "corrections", whose fields are those of `Correction`; there it may also describe itself in
    "what", a text, and "networks", an object of texts. It ignores unknown fields of records.

    Raises:
        RecordError: The file cannot be read, is not such a list, or an entry lacks a field, has
            one of another type, a figure that is not positive or out of range, or an id that
            another entry has; or a correction is invalid, or concerns the records of another one.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"Cannot read the records of {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is not JSON: {error}. Write a list of records.") from error
    entries, corrections = _sections(content, path)
    records = tuple(_record(entry, f"{path}, entry {at}") for at, entry in enumerate(entries))
    ids: set[str] = set()
    for record in records:
        if record.id in ids:
            raise RecordError(f"{path} has two records of the id {record.id!r}. Rename one.")
        ids.add(record.id)
    by_id = _corrections_by_id(corrections, ids, path)
    return tuple(dataclasses.replace(record, correction=by_id.get(record.id)) for record in records)


def _sections(content: Any, path: str | Path) -> tuple[list[Any], list[Any]]:
    """Returns the records and the corrections of a file, as plain data."""
    if isinstance(content, list):
        return content, []
    if not isinstance(content, dict):
        raise RecordError(
            f"{path} must hold a list of records. Received: {type(content).__name__}."
        )
    if "records" not in content or content.keys() - _SECTIONS.keys():
        raise RecordError(
            f"{path} must hold a list of records, or an object of 'records' and 'corrections'. "
            f"Received: an object of {', '.join(map(repr, content)) or 'nothing'}."
        )
    for name in content:
        type_, description = _SECTIONS[name]
        if not isinstance(content[name], type_):
            kind = type(content[name]).__name__
            raise RecordError(f"{path}: {name!r} must be {description}. Received: {kind}.")
    return content["records"], content.get("corrections", [])


def _corrections_by_id(
    entries: list[Any], known_ids: set[str], path: str | Path
) -> dict[str, Correction]:
    """Returns the correction of each record that has one."""
    by_id: dict[str, Correction] = {}
    for at, entry in enumerate(entries):
        where = f"{path}, correction {at}"
        try:
            correction = correction_of(entry, known_ids)
        except CorrectionError as error:
            raise RecordError(f"{where}: {error}") from None
        _check_params(correction.params, where)
        for id_ in correction.ids:
            if id_ in by_id:
                raise RecordError(f"{where}: {id_!r} is corrected twice. Remove it from one.")
            by_id[id_] = correction
    return by_id


def _record(entry: Any, where: str) -> MeasuredPoint:
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
            description = "a number" if name in ("measured", "n_ipus") else _type_name(name)
            raise RecordError(
                f"{where}: {name!r} must be {description}. Received: {entry[name]!r}."
            )
    record = MeasuredPoint(
        **{name: entry[name] for name in (*_REQUIRED, *_OPTIONAL) if name in entry}
    )
    _check_params(record.params, where)
    if not record.measured > 0 or is_out_of_range(record.measured):
        raise RecordError(
            f"{where}: 'measured' must be positive, and at most {LARGEST:,}. "
            f"Received: {str(record.measured)[:40]}."
        )
    if record.n_ipus < 1:
        raise RecordError(f"{where}: 'n_ipus' must be positive. Received: {record.n_ipus!r}.")
    if not record.unit.strip():
        raise RecordError(f"{where}: 'unit' must be a unit, such as 'us'. Received: ''.")
    return record


def _check_params(params: Mapping[str, Any], where: str) -> None:
    for name, value in params.items():
        if is_out_of_range(value):
            raise RecordError(
                f"{where}: the parameter {name!r} is not the size of a measurement: write a "
                f"number of at most {LARGEST:,}. Received: {str(value)[:40]}."
            )


def _type_name(name: str) -> str:
    return "an object" if name == "params" else "a text"
