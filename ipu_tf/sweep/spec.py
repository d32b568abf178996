"""Files that describe a sweep: TOML or JSON, with the parameters of `sweep` as keys."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Required, TypedDict, cast

from ipu_tf.sweep.point import Machine, Streaming
from ipu_tf.sweep.space import Space

_AXES = tuple(field.name for field in dataclasses.fields(Space))


class SweepArguments(TypedDict, total=False):
    """The arguments of `sweep` that a file may hold; the parameters are those of `Space`."""

    model: Required[str]
    training: bool
    chip: Sequence[Machine]
    tile_kib: Sequence[float | None]
    streaming: Sequence[Streaming | None]
    batch_size: Sequence[int]
    replicas: Sequence[int]
    stages: Sequence[int]
    accumulation: Sequence[int]
    precision: Sequence[str]
    offload: Sequence[bool]


class SpecError(ValueError):
    """A file that describes no sweep."""


def read_spec(path: str | os.PathLike[str]) -> SweepArguments:
    """Returns the arguments of `sweep` that a file holds: `model`, `training` and the parameters.

    Python files that it names are searched beside it.

    A parameter is a value or a list of them; `streaming` takes tables of `gib`, `gb_per_second` and
    `name`. Where JSON has null, TOML has "chip": the memory of the chip or system itself.

    Args:
        path: A file of TOML, or of JSON if its name ends in ".json".

    Raises:
        OSError: It cannot be read.
        SpecError: It is not valid, lacks the model, or has a key that no sweep has.
    """
    entries = _entries(Path(path))
    unknown = sorted(set(entries) - {"model", "training", *_AXES})
    if unknown:
        raise SpecError(
            f"{path} has keys that no sweep has. Choose from model, training, {', '.join(_AXES)}. "
            f"Received: {', '.join(unknown)}."
        )
    if not isinstance(entries.get("model"), str):
        raise SpecError(
            f'{path} needs a model: model = "module:function", "file.py:function" or '
            f'"zoo:network". Received: {entries.get("model")!r}.'
        )
    if not isinstance(entries.get("training", True), bool):
        raise SpecError(
            f"{path}: training must be true or false. Received: {entries['training']!r}."
        )
    arguments = dict(entries)
    arguments["model"] = _beside(Path(path), entries["model"])
    for name in _AXES:
        if name in entries:
            values = entries[name] if isinstance(entries[name], list) else [entries[name]]
            arguments[name] = [_value(name, value, Path(path)) for value in values]
    try:
        Space(**{name: arguments[name] for name in _AXES if name in arguments})
    except ValueError as error:
        raise SpecError(f"{path}: {error}") from None
    return cast(SweepArguments, arguments)


def _entries(path: Path) -> Mapping[str, Any]:
    content = path.read_bytes()
    is_json = path.suffix == ".json"
    try:
        entries = json.loads(content) if is_json else tomllib.loads(content.decode())
    except ValueError as error:
        kind = "JSON" if is_json else "TOML"
        raise SpecError(f"{path} is not valid {kind}: {error}") from None
    if not isinstance(entries, dict):
        raise SpecError(f"{path} must hold an object with the parameters of a sweep.")
    return entries


def _beside(spec: Path, name: str) -> str:
    """Returns "file.py:name" with the file's path from here: those of a spec are beside it."""
    source, _, attribute = name.rpartition(":")
    return f"{spec.parent / source}:{attribute}" if source.endswith(".py") else name


def _value(name: str, value: Any, path: Path) -> Any:
    if name == "chip" and isinstance(value, str):
        return _beside(path, value)
    if name in ("tile_kib", "streaming") and value == "chip":
        return None
    if name == "streaming" and isinstance(value, dict):
        try:
            return Streaming(**value)
        except (TypeError, ValueError) as error:
            raise SpecError(f"{path}: streaming: {error}") from None
    return value
