"""Reports as JSON files: an envelope with a version around plain data.

The files hold data only: reading one runs nothing. docs/report.md describes them.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ipu_tf.base import codec
from ipu_tf.base.whole_files import write_whole
from ipu_tf.machine.tile_figures import TileRuns
from ipu_tf.profile.data.json_figures import program_figures
from ipu_tf.profile.data.json_upgrade import upgraded
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.program import Step, TileMemory
from ipu_tf.tile_program.tile_details import detailed

FORMAT = "ipu_tf report"
VERSION = 4
"""Increases if older readers would misread a file; new fields with defaults do not change it."""

_GZIP = b"\x1f\x8b"
"""The first bytes of every gzip file (RFC 1952)."""

_Report = TypeVar("_Report")


class ReportFileError(ValueError):
    """A file that is no report, is damaged, or was written by a later version."""


def write(report: Any, path: str | os.PathLike[str]) -> None:
    """Writes a report to a file; compressed with gzip if its name ends in ".gz"."""
    content = (json.dumps(plain(report), separators=(",", ":")) + "\n").encode()
    if os.fspath(path).endswith(".gz"):
        content = gzip.compress(content, mtime=0)  # Equal reports are equal files.
    write_whole(path, content)


def plain(report: Any) -> dict[str, Any]:
    """Returns the content of a report's file as plain data, with the figures of every tile."""
    programs = tuple(
        dataclasses.replace(program, device=detailed(program.device)) if program.device else program
        for program in report.programs
    )
    return {
        "format": FORMAT,
        "version": VERSION,
        "figures": [program_figures(program) for program in report.programs],
        "report": codec.encode(dataclasses.replace(report, programs=programs)),
    }


def read(wanted: type[_Report], path: str | os.PathLike[str]) -> _Report:
    """Returns the report in a file.

    Args:
        wanted: The class of reports.
        path: The file.

    Raises:
        FileNotFoundError: There is no such file.
        ReportFileError: It holds no report, a damaged one, or one of a later version.
    """
    content = _content(path)
    try:
        envelope = json.loads(content.decode(), parse_constant=_refuse)
    except ValueError as error:  # Includes text that is not UTF-8.
        raise ReportFileError(f"{path} is not valid JSON: {error}") from None
    except RecursionError:
        raise ReportFileError(f"{path} is not a report: it is nested too deeply.") from None
    _check_envelope(envelope, path)
    try:
        data = upgraded(envelope.get("report"), envelope["version"])
        report = codec.decode(wanted, data, "report")
        for index, program in enumerate(report.programs):  # type: ignore[attr-defined]
            path_of_program = f"report.programs[{index}]"
            if program.device is not None:
                _check_counts(program.device, f"{path_of_program}.device")
                _check_arrays(program.device, f"{path_of_program}.device")
    except codec.CodecError as error:
        raise ReportFileError(f"{path} is damaged: {error}") from None
    return report


def _content(path: str | os.PathLike[str]) -> bytes:
    """Returns the bytes of a file, decompressed if it is compressed, whatever its name."""
    content = Path(path).read_bytes()
    if not content.startswith(_GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise ReportFileError(f"{path} is damaged: it cannot be decompressed: {error}") from None


def _check_envelope(envelope: Any, path: str | os.PathLike[str]) -> None:
    if not isinstance(envelope, dict) or envelope.get("format") != FORMAT:
        raise ReportFileError(
            f'{path} is not a report: it needs an object with "format": {FORMAT!r}. Write one '
            "with `report.to_json(path)`."
        )
    version = envelope.get("version")
    if type(version) is not int or version < 1:
        raise ReportFileError(
            f'{path} is damaged: "version" must be a positive integer. Received: {version!r}.'
        )
    if version > VERSION:
        raise ReportFileError(
            f"{path} was written by a later release, in version {version} of the format; this "
            f"one reads versions up to {VERSION}. Read it with the release that wrote it."
        )


def _check_arrays(device: DeviceProgram, path: str) -> None:
    """Checks that arrays have an entry for every tile, or step."""
    tiles = device.target.tiles
    for index, stage in enumerate(device.stages):
        program, where = stage.program, f"{path}.stages[{index}].program"
        _check_memory(program.memory, tiles, len(program.steps), where)
        for number, step in enumerate(program.steps):
            _check_tiles(step, tiles, f"{where}.steps[{number}]")
    for index, ipu in enumerate(device.ipus):
        steps = len(ipu.memory.live_bytes)
        _check_memory(ipu.memory, tiles, steps, f"{path}.ipus[{index}]")


def _check_counts(value: Any, path: str) -> None:
    """Checks that all numbers of a program are counts: cycles, bytes, tiles, steps."""
    if isinstance(value, np.ndarray):
        _check_count(int(value.min(initial=0)), path)
    elif isinstance(value, TileRuns):
        _check_count(min(value.values), path)
    elif isinstance(value, int | float):
        _check_count(value, path)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _check_counts(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            _check_counts(entry, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            _check_counts(entry, f"{path}[{index}]")


def _check_count(count: float, path: str) -> None:
    if count < 0:
        raise codec.CodecError(f"{path}: expected a count, at least 0. Received: {count}.")


def _check_memory(memory: TileMemory, tiles: int, steps: int, path: str) -> None:
    lengths = {
        f"{name}.{category}": (len(values), tiles)
        for name in ("always_live", "not_always_live_peak")
        for category, values in getattr(memory, name).items()
    }
    for name in ("live_bytes", "max_tile_bytes"):
        lengths[name] = (len(getattr(memory, name)), steps)
    for name, (received, wanted) in lengths.items():
        if received != wanted:
            raise codec.CodecError(
                f"{path}.memory.{name}: expected {wanted} entries. Received: {received}."
            )


def _check_tiles(step: Step, tiles: int, path: str) -> None:
    """Checks that the figures of supersteps have an entry for every tile."""
    for index, superstep in enumerate(step.supersteps):
        if superstep.tiles is None:
            continue
        for field in dataclasses.fields(superstep.tiles):
            received = sum(getattr(superstep.tiles, field.name).tiles)
            if received != tiles:
                raise codec.CodecError(
                    f"{path}.supersteps[{index}].tiles.{field.name}: expected runs of {tiles} "
                    f"tiles. Received: {received}."
                )


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON")
