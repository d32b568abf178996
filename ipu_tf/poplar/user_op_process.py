"""Custom ops in processes of their own: what crashes there is an error here.

Requests and answers are pickled, between processes of one program. Inputs and outputs are copied.
"""

from __future__ import annotations

import ctypes
import math
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ipu_tf.poplar.user_op_bridge import (
    RUN,
    Bridge,
    TensorType,
    UserOpCall,
    UserOpError,
    UserOpShapes,
    UserProgram,
    reason_of,
)

_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from ipu_tf.poplar.user_op_process import serve; serve(sys.argv[2], int(sys.argv[3]))"
)
_ROOT = Path(__file__).resolve().parents[2]


class Child:
    """A process that builds and runs an op.

    Args:
        library: The library that builds ops.
    """

    def __init__(self, library: Path) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-c", _CODE, str(_ROOT), str(library), str(theirs.fileno())]
            self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()])
        self._connection = Connection(ours.detach())
        weakref.finalize(self, _end, self._connection, self._process)
        self._lock = threading.Lock()
        self._callbacks: list[Any] = []  # What the kernel calls.
        self.has_ended = False

    def is_stateless(self, call: UserOpCall, inputs: int) -> bool:
        """Returns what `Bridge.is_stateless` does there."""
        return bool(self._ask("is_stateless", call, inputs))

    def build(self, op: UserOpShapes) -> UserProgram:
        """Returns what `Bridge.build` builds there, with a function here that runs it."""
        number, has_output, records = self._ask("build", op)
        sizes = [_bytes(one) for one in op.inputs]
        reasons = threading.local()

        @RUN
        def run(_: int, inputs: Any, outputs: Any, error: Any) -> int:
            try:
                operands = [ctypes.string_at(inputs[i], size) for i, size in enumerate(sizes)]
                for place, result in enumerate(self._ask("run", number, operands)):
                    ctypes.memmove(outputs[place], result, len(result))
            except UserOpError as failure:
                reasons.last = error[0] = str(failure).encode()
                return 0
            return 1

        self._callbacks.append(run)
        return UserProgram(
            run=ctypes.cast(run, ctypes.c_void_p).value or 0,
            op=0,
            has_output=has_output,
            records=lambda: records,
        )

    def _ask(self, request: str, *arguments: object) -> Any:
        """Returns the answer to a request.

        Raises:
            UserOpError: The op raised an error, or its process has crashed.
        """
        with self._lock:
            try:
                self._connection.send((request, arguments))
                is_good, answer = self._connection.recv()
            except (EOFError, OSError):
                self.has_ended = True
                raise UserOpError(_end_of(self._process)) from None
        if not is_good:
            raise UserOpError(answer)
        return answer


def _end(connection: Connection, process: subprocess.Popen[bytes]) -> None:
    connection.close()
    process.wait()


def _end_of(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    reason = signal.strsignal(-code) if code < 0 else f"exit code {code}"
    return f"its process crashed ({reason}). What it wrote is in the standard error output."


def _bytes(tensor: TensorType) -> int:
    return math.prod(tensor.shape) * np.dtype(tensor.dtype).itemsize


def _addresses(buffers: Sequence[ctypes.Array[ctypes.c_char]]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))


def serve(library: str, end: int) -> None:
    """Answers requests until the program that asks ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server, connection = _Server(Bridge(Path(library))), Connection(end)
    while True:
        try:
            request, arguments = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (True, getattr(server, request)(*arguments))
        except UserOpError as error:
            answer = (False, str(error))
        connection.send(answer)


class _Server:
    """The requests, by name."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._programs: list[tuple[UserProgram, list[int]]] = []

    def is_stateless(self, call: UserOpCall, inputs: int) -> bool:
        return self._bridge.is_stateless(call, inputs)

    def build(self, op: UserOpShapes) -> tuple[int, tuple[bool, ...], bytes]:
        """Builds an op; returns its number, which outputs it has, and its graph."""
        program = self._bridge.build(op)
        outputs_of_program = [
            _bytes(one) for one, has in zip(op.outputs, program.has_output, strict=True) if has
        ]
        self._programs.append((program, outputs_of_program))
        return len(self._programs) - 1, program.has_output, program.records()

    def run(self, number: int, operands: Sequence[bytes]) -> list[bytes]:
        """Returns the outputs of an op."""
        program, sizes = self._programs[number]
        inputs = [ctypes.create_string_buffer(one, max(1, len(one))) for one in operands]
        outputs = [ctypes.create_string_buffer(max(1, size)) for size in sizes]
        error = ctypes.c_char_p()
        places = (_addresses(inputs), _addresses(outputs))
        if not RUN(program.run)(program.op, *places, ctypes.byref(error)):
            raise UserOpError(reason_of(error))
        return [one.raw[:size] for one, size in zip(outputs, sizes, strict=True)]
