"""The process that models cycles and memory for a C++ program; needs no TensorFlow.

A program sends requests over the socket that is this process's standard input: a name, and arrays
by name. Each gets one answer: whether it failed, and text or numbers as bytes.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from ipu_tf.poplar.model.graph import Bytes, Counts, PoplarGraph
from ipu_tf.poplar.model.lowering import lower, step_cycles, thread_cycles
from ipu_tf.poplar.model.machine import NotModelledError
from ipu_tf.poplar.model.overflow import overflow_text
from ipu_tf.poplar.model.records import exactly, read_from
from ipu_tf.poplar.model.summary import summary
from ipu_tf.tile_program.device_program import DeviceProgram

if TYPE_CHECKING:
    from ipu_tf.profile.report import Report


class Session:
    """A program: its graphs by number, and answers about them."""

    def __init__(self) -> None:
        self._graphs: dict[bytes, PoplarGraph] = {}

    def answer(self, request: str, records: Bytes) -> bytes:
        """Returns the answer of a request.

        Raises:
            NotModelledError: The machine of the graph has no model.
        """
        return _ANSWERS[request](self, records)

    def _graph(self, records: Bytes) -> bytes:
        self._graphs[records["id"]] = PoplarGraph.of(records)
        return b""

    def _forget(self, records: Bytes) -> bytes:
        del self._graphs[records["id"]]
        return b""

    def _program(self, records: Bytes) -> DeviceProgram:
        return lower(self._graphs[records["id"]], Counts.of(records))

    def _cycles(self, records: Bytes) -> bytes:
        return step_cycles(self._graphs[records["id"]], Counts.of(records)).astype("<u8").tobytes()

    def _summary(self, records: Bytes) -> bytes:
        graph, program = self._graphs[records["id"]], self._program(records)
        busy = thread_cycles(graph, Counts.of(records))
        steps = records["options"] == b"steps"
        return summary(graph, program, busy_cycles=busy, steps=steps).encode()

    def _overflow(self, records: Bytes) -> bytes:
        return overflow_text(self._program(records)).encode()

    def _json(self, records: Bytes) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            _report(self._program(records)).to_json(path)
            return path.read_bytes()

    def _write(self, records: Bytes) -> bytes:
        from ipu_tf.profile.report_formats import write_formats

        folder = Path(records["folder"].decode())
        paths = write_formats(_report(self._program(records)), folder, _FORMATS)
        return "\n".join(map(str, paths)).encode()


_FORMATS = ("json", "text", "html", "perfetto")

_ANSWERS: Mapping[str, Callable[[Session, Bytes], bytes]] = {
    "graph": Session._graph,
    "forget": Session._forget,
    "cycles": Session._cycles,
    "summary": Session._summary,
    "overflow": Session._overflow,
    "json": Session._json,
    "write": Session._write,
}


def _report(program: DeviceProgram) -> Report:
    """Returns the report of one program; its room is loaded when a program asks for one."""
    from ipu_tf.profile.report import Report
    from ipu_tf.programs.program import Program
    from ipu_tf.tile_program.tile_details import detailed

    return Report(programs=(Program(name=program.name, device=detailed(program)),))


def serve(session: Session, stream: BinaryIO) -> None:
    """Answers requests until the program ends."""
    while True:
        request = _text(stream)
        if request is None:
            return
        records = read_from(stream)
        failure, answer = _answer(session, request, records)
        stream.write(struct.pack("<BQ", failure, len(answer)) + answer)
        stream.flush()


def _answer(session: Session, request: str, records: Bytes) -> tuple[bool, bytes]:
    try:
        return False, session.answer(request, records)
    except NotModelledError as error:
        return True, str(error).encode()
    except OSError as error:
        return True, f"Cannot write {error.filename}: {error.strerror}.".encode()
    except Exception:
        return True, f"The model of cycles and memory failed:\n{traceback.format_exc()}".encode()


def _text(stream: BinaryIO) -> str | None:
    """Returns a text behind its length; None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return exactly(stream, struct.unpack("<I", head)[0]).decode()


def main() -> None:
    """Serves the program at the other end of the standard input, until that ends in any way."""
    ends = (BrokenPipeError, ConnectionResetError, EOFError)
    with contextlib.suppress(*ends), socket.socket(fileno=0) as end, end.makefile("rwb") as stream:
        serve(Session(), cast(BinaryIO, stream))
