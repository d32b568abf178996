"""What an instance tells the launcher, between the lines of its error output."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass

_START = b"\x1e"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An instance has started its program.

    Attributes:
        instance: Its number.
        host: Its host's name.
        digest: Tells its script from others; "" without one.
    """

    instance: int
    host: str
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The program of an instance has ended badly.

    Attributes:
        instance: Its number.
        host: Its host's name.
        returncode: Its status, or below 0 the signal that ended it.
        last_lines: The end of its output.
        tells_others: Whether it tells the other instances itself, which then end by themselves.
    """

    instance: int
    host: str
    returncode: int
    last_lines: tuple[str, ...] = ()
    tells_others: bool = False


def encoded(report: Started | Failed, token: str) -> bytes:
    """Returns a report as a line.

    Args:
        report: The report.
        token: A word that nothing else writes.
    """
    content = {"kind": type(report).__name__, **dataclasses.asdict(report)}
    return _START + token.encode() + json.dumps(content).encode() + b"\n"


class ReportReader:
    """Takes the reports out of a stream.

    Args:
        token: The word that begins them.
        write: Gets all other bytes.
        receive: Gets the reports.
    """

    def __init__(
        self,
        token: str,
        *,
        write: Callable[[bytes], object],
        receive: Callable[[Started | Failed], object],
    ) -> None:
        self._mark = _START + token.encode()
        self._write = write
        self._receive = receive
        self._buffer = b""

    def feed(self, data: bytes) -> None:
        """Takes the next bytes; those that may begin a report wait for more."""
        data, self._buffer = self._buffer + data, b""
        while (start := data.find(_START)) >= 0:
            self._pass_on(data[:start])
            data = data[start:]
            if data.startswith(self._mark):
                line, end, tail = data.partition(b"\n")
                if not end:
                    self._buffer = data
                    return
                self._receive(_report_of(line.removeprefix(self._mark)))
                data = tail
            elif self._mark.startswith(data):
                self._buffer = data
                return
            else:
                self._pass_on(_START)
                data = data.removeprefix(_START)
        self._pass_on(data)

    def close(self) -> None:
        """Writes what is left."""
        self._pass_on(self._buffer)
        self._buffer = b""

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._write(data)


def _report_of(line: bytes) -> Started | Failed:
    content = json.loads(line)
    if content.pop("kind") == Started.__name__:
        return Started(**content)
    return Failed(**content | {"last_lines": tuple(content["last_lines"])})
