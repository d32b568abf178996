"""One instance: sets its environment and cores, runs its program, and reports how that ends.

mpirun starts this in place of the program. It holds the program's connection to mpirun open until
it has reported, because mpirun ends all processes as soon as one connection breaks.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import NoReturn

from ipu_tf.processes.instances import Instances, LaunchError
from ipu_tf.processes.job_folder import FOLDER, make_job_folder, remove_job_folder
from ipu_tf.processes.launch.children import end_rest_of_group, ending_with_parent, status_of
from ipu_tf.processes.launch.cores import share_of_cores, thread_variables
from ipu_tf.processes.launch.job_description import JobDescription, described
from ipu_tf.processes.launch.output import LineRelay, write_all
from ipu_tf.processes.launch.python_program import STATUS_DESCRIPTOR
from ipu_tf.processes.launch.reports import Failed, Started, encoded

_KEPT_LINES = 10
_QUIET_SECONDS = 0.2
"""After this pause a line without an end is written."""

_DRAIN_SECONDS = 1.0
"""How long output is awaited after the program has ended, where others hold its pipes open."""

_NOT_STARTED = 127
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(words: list[str]) -> NoReturn:
    """Runs a program as an instance; ends with its status.

    Args:
        words: The description, and the words of the program's command line.
    """
    description, program = described(words[0]), words[1:]
    try:
        instance = description.instance()
    except LaunchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(_NOT_STARTED)
    folder = make_job_folder(description.token)
    shared = {} if folder is None else {FOLDER: str(folder)}
    try:
        status = _Supervisor(description, instance, shared).run(program)
    finally:
        if folder is not None and instance.local_index == 0:
            remove_job_folder(folder)
    sys.exit(status)


def environment_of(instance: Instances, cores: int) -> dict[str, str]:
    """Returns the environment of an instance.

    Args:
        instance: The instance.
        cores: The number of its cores.
    """
    return os.environ | instance.variables() | thread_variables(cores, os.environ)


class _Supervisor:
    """Runs the program of an instance, with further variables of the environment."""

    def __init__(
        self, description: JobDescription, instance: Instances, variables: dict[str, str]
    ) -> None:
        self._description = description
        self._instance = instance
        self._variables = variables
        self._last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process: subprocess.Popen[bytes] | None = None
        self._was_stopped = False
        self._has_reported = False

    def run(self, program: list[str]) -> int:
        """Returns the exit status of the program, 128 more than a signal that ended it."""
        cores = self._pin()
        for each in _STOPPING:
            signal.signal(each, self._stop)
        self._report(
            Started(
                instance=self._instance.index,
                host=socket.gethostname(),
                digest=_digest(self._description.script),
            )
        )
        status, of_program = socket.socketpair()
        of_program.set_inheritable(True)
        status_variable = {STATUS_DESCRIPTOR: str(of_program.fileno())}
        try:
            self._process = subprocess.Popen(
                program,
                env=environment_of(self._instance, cores) | self._variables | status_variable,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                close_fds=False,  # The program talks to mpirun through them.
                preexec_fn=ending_with_parent(signal.SIGKILL),
            )
        except OSError as error:
            return self._fail(_NOT_STARTED, f"cannot start {program[0]}: {error.strerror}")
        of_program.close()
        with self._process, status:
            self._relay(self._process, status)
            returncode = self._process.wait()
        if returncode and not self._was_stopped:
            self._fail(returncode)
            end_rest_of_group()
        return status_of(returncode)

    def _pin(self) -> int:
        """Takes this instance's share of the host's cores; returns their number."""
        cores = os.sched_getaffinity(0)
        if not self._description.pins_cores:
            return len(cores)
        share = share_of_cores(cores, *self._description.of_host())
        os.sched_setaffinity(0, share)
        return len(share)

    def _relay(self, process: subprocess.Popen[bytes], status: socket.socket) -> None:
        """Passes on what the program writes, and reports its status, until it has ended."""
        streams = ((process.stdout, "stdout", 1), (process.stderr, "stderr", 2))
        with selectors.DefaultSelector() as selector:
            for stream, name, descriptor in streams:
                assert stream is not None
                selector.register(stream, selectors.EVENT_READ, self._line_relay(name, descriptor))
            selector.register(status, selectors.EVENT_READ)
            end = None
            while _relays(selector):
                ready = [key for key, _ in selector.select(_QUIET_SECONDS)]
                of_program = [key for key in ready if key.data is not None]
                _pass_on(selector, of_program)
                if not of_program and ready:  # All that it wrote before has been read.
                    self._take_status(status, selector)
                if not ready:
                    for relay in _relays(selector):
                        relay.flush()
                if end is None and process.poll() is not None:
                    end = time.monotonic()
                if end is not None and time.monotonic() > end + _DRAIN_SECONDS:
                    return

    def _take_status(self, status: socket.socket, selector: selectors.BaseSelector) -> None:
        """Reports the status that a Python program tells before it ends."""
        message = b""
        with contextlib.suppress(ConnectionResetError):  # It ended before it read an answer.
            message = status.recv(2)
        if len(message) < 2:
            selector.unregister(status)
            return
        for relay in _relays(selector):
            relay.flush()
        if not self._was_stopped:
            self._fail(message[0], tells_others=bool(message[1]))
        with contextlib.suppress(OSError):
            status.send(b"k")

    def _line_relay(self, name: str, descriptor: int) -> LineRelay:
        only = self._description.only_output_from
        is_passed_on = only is None or only == self._instance.index
        tag = f"[1,{self._instance.index}]<{name}>:" if self._description.tags_output else ""
        return LineRelay(descriptor if is_passed_on else None, tag.encode(), self._last_lines)

    def _stop(self, number: int, _: object) -> None:
        """Ends the program, unless it has ended before and is to be reported."""
        process = self._process
        if process is None:
            os._exit(128 + number)
        if process.poll() is None:
            self._was_stopped = True
            process.send_signal(number)

    def _fail(self, returncode: int, why: str = "", *, tells_others: bool = False) -> int:
        if why:
            self._last_lines.append(why)
        if not self._has_reported:
            self._has_reported = True
            self._report(
                Failed(
                    instance=self._instance.index,
                    host=socket.gethostname(),
                    returncode=returncode,
                    last_lines=tuple(self._last_lines),
                    tells_others=tells_others,
                )
            )
        return status_of(returncode)

    def _report(self, report: Started | Failed) -> None:
        # Without a launcher there is nobody to tell.
        with contextlib.suppress(BrokenPipeError):
            write_all(2, encoded(report, self._description.token))


def _pass_on(selector: selectors.BaseSelector, ready: list[selectors.SelectorKey]) -> None:
    """Passes on what has come in streams; ends those that have ended."""
    for key in ready:
        data = os.read(key.fd, 1 << 16)
        if data:
            key.data.feed(data)
        else:
            key.data.flush()
            selector.unregister(key.fileobj)


def _relays(selector: selectors.BaseSelector) -> list[LineRelay]:
    """Returns the relays of the streams that have not ended."""
    return [key.data for key in selector.get_map().values() if key.data is not None]


def _digest(script: str) -> str:
    """Returns what tells a script from others: a short hash of its bytes."""
    try:
        return hashlib.sha256(Path(script).read_bytes()).hexdigest()[:16] if script else ""
    except OSError:
        return "missing"
