"""Reports as JSON files: an envelope with a version around plain data.

The files hold data only: reading one runs nothing. docs/report.md describes them.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import zlib
from pathlib import Path
from typing import BinaryIO, ClassVar, NoReturn, Protocol, TypeVar, cast

from ipu_tf.base import codec
from ipu_tf.base.printable import printable
from ipu_tf.base.whole_files import write_whole
from ipu_tf.profile.data.json_checks import check_device
from ipu_tf.profile.data.json_figures import program_figures
from ipu_tf.profile.data.json_upgrade import upgraded
from ipu_tf.profile.text.units import memory
from ipu_tf.programs.program import Program
from ipu_tf.tile_program.tile_details import detailed

FORMAT = "ipu_tf report"
VERSION = 4
"""Increases if older readers would misread a file; new fields with defaults do not change it."""

_LARGEST_BYTES = 1 << 30
"""Bytes of JSON at most, after decompression; a training step of ResNet-50 has 8 million."""

_GZIP = b"\x1f\x8b"
"""The first bytes of every gzip file (RFC 1952)."""


class FileContents(Protocol):
    """What a file needs of a report."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats about all of them."""


_Report = TypeVar("_Report", bound=FileContents)


class ReportFileError(ValueError):
    """A file that is no report, is damaged, or was written by a later version."""


def write(report: FileContents, path: str | os.PathLike[str]) -> None:
    """Writes a report to a file; compressed with gzip if its name ends in ".gz"."""
    content = (json.dumps(plain(report), separators=(",", ":")) + "\n").encode()
    if os.fspath(path).endswith(".gz"):
        content = gzip.compress(content, mtime=0)  # Equal reports are equal files.
    write_whole(path, content)


def plain(report: FileContents) -> dict[str, object]:
    """Returns the content of a report's file as plain data.

    It has the figures of every tile, unless a program is too large: then a note of the report says
    so.
    """
    programs, notes = [], []
    for program in report.programs:
        device = detailed(program.device) if program.device is not None else None
        if device is not None and device is program.device:
            notes.append(
                f"the file lacks the figures of single tiles of '{program.name}', which has too "
                "many supersteps"
            )
        programs.append(dataclasses.replace(program, device=device))
    in_file = dataclasses.replace(report, programs=tuple(programs), notes=(*report.notes, *notes))
    return {
        "format": FORMAT,
        "version": VERSION,
        "figures": [program_figures(program) for program in report.programs],
        "report": codec.encode(in_file),
    }


def read(report_type: type[_Report], path: str | os.PathLike[str]) -> _Report:
    """Returns the report in a file.

    Args:
        report_type: The class of reports.
        path: The file.

    Raises:
        FileNotFoundError: There is no such file.
        ReportFileError: It holds no report, a damaged one, or one of a later version.
    """
    content = _content(path)
    try:
        envelope = printable(json.loads(content.decode(), parse_constant=_refuse))
    except ValueError as error:  # Includes text that is not UTF-8.
        raise ReportFileError(f"{path} is not valid JSON: {error}") from None
    except RecursionError:
        raise ReportFileError(f"{path} is not a report: it is nested too deeply.") from None
    _check_envelope(envelope, path)
    try:
        data = upgraded(envelope.get("report"), envelope["version"])
        report = codec.decode(report_type, data, "report")
        for index, program in enumerate(report.programs):
            path_of_program = f"report.programs[{index}]"
            if program.device is not None:
                check_device(program.device, f"{path_of_program}.device")
    except codec.CodecError as error:
        raise ReportFileError(f"{path} is damaged: {error}") from None
    return report


def _content(path: str | os.PathLike[str]) -> bytes:
    """Returns the bytes of a file, decompressed if it is compressed, whatever its name."""
    with Path(path).open("rb") as plain_file:
        is_packed = plain_file.read(len(_GZIP)) == _GZIP
        plain_file.seek(0)
        file = cast("BinaryIO", gzip.GzipFile(fileobj=plain_file)) if is_packed else plain_file
        try:
            content = file.read(_LARGEST_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise ReportFileError(
                f"{path} is damaged: it cannot be decompressed: {error}"
            ) from None
    if len(content) > _LARGEST_BYTES:
        raise ReportFileError(
            f"{path} holds more than {memory(_LARGEST_BYTES)} of JSON, the most that is read. "
            "Check where it comes from; reports of fewer programs are smaller."
        )
    return content


def _check_envelope(envelope: object, path: str | os.PathLike[str]) -> None:
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


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")
