"""Corrections: published facts of a measurement that contradict its records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields


class CorrectionError(ValueError):
    """An entry is not a valid correction; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A measurement as its publication describes it. The measured figures stay as recorded.

    Attributes:
        source: Its name.
        ids: Ids of its records.
        chip: The chip that was measured.
        params: Parameters that replace those of the records, by name.
        why: The publication, or the facts it follows from.
    """

    source: str
    ids: tuple[str, ...]
    chip: str
    params: Mapping[str, object] = field(default_factory=dict)
    why: str


def correction_of(entry: object, known_ids: Collection[str]) -> Correction:
    """Returns the correction in an entry of a file.

    Args:
        entry: Plain data.
        known_ids: Ids of the file's records.

    Raises:
        CorrectionError: It describes none, or names a record that the file does not have.
    """
    if not isinstance(entry, dict):
        raise CorrectionError(f"a correction is an object. Received: {entry!r}.")
    names = {one.name for one in fields(Correction)}
    absent, unknown = names - {"params"} - entry.keys(), entry.keys() - names
    if absent or unknown:
        problem, wrong = ("lacks", absent) if absent else ("has no field", unknown)
        raise CorrectionError(f"a correction {problem} {', '.join(map(repr, sorted(wrong)))}.")
    for name in ("source", "chip", "why"):
        if not isinstance(entry[name], str):
            raise CorrectionError(f"{name!r} must be a text. Received: {entry[name]!r}.")
    ids, params = entry["ids"], entry.get("params", {})
    if not isinstance(params, dict):
        raise CorrectionError(f"'params' must be an object. Received: {params!r}.")
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise CorrectionError(f"'ids' must be a list of ids of records. Received: {ids!r}.")
    strangers = [one for one in ids if one not in known_ids]
    if strangers:
        raise CorrectionError(f"'ids' names records that are not there: {', '.join(strangers)}.")
    return Correction(**{**entry, "ids": tuple(ids)})
