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
from ipu_tf.processes.launch.children import end_rest_of_group, ending_with_parent, status_of
from ipu_tf.processes.launch.cores import share_of_cores, thread_variables
from ipu_tf.processes.launch.job_description import JobDescription, described
from ipu_tf.processes.launch.output import LineRelay, write_all
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
    sys.exit(_Supervisor(description, instance).run(program))


def environment_of(instance: Instances, cores: int) -> dict[str, str]:
    """Returns the environment of an instance.

    Args:
        instance: The instance.
        cores: The number of its cores.
    """
    return os.environ | instance.variables() | thread_variables(cores, os.environ)


class _Supervisor:
    """Runs the program of an instance."""

    def __init__(self, description: JobDescription, instance: Instances) -> None:
        self._description = description
        self._instance = instance
        self._last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process: subprocess.Popen[bytes] | None = None
        self._was_stopped = False

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
        try:
            self._process = subprocess.Popen(
                program,
                env=environment_of(self._instance, cores),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                close_fds=False,  # The program talks to mpirun through them.
                preexec_fn=ending_with_parent(signal.SIGKILL),
            )
        except OSError as error:
            return self._fail(_NOT_STARTED, f"cannot start {program[0]}: {error.strerror}")
        with self._process:
            self._relay(self._process)
            returncode = self._process.wait()
        if returncode == 0 or self._was_stopped:
            return status_of(returncode)
        return self._fail(returncode)

    def _pin(self) -> int:
        """Takes this instance's share of the host's cores; returns their number."""
        allowed = os.sched_getaffinity(0)
        if not self._description.pins_cores:
            return len(allowed)
        share = share_of_cores(allowed, *self._description.of_host())
        os.sched_setaffinity(0, share)
        return len(share)

    def _relay(self, process: subprocess.Popen[bytes]) -> None:
        """Passes on what the program writes, until it has ended."""
        streams = ((process.stdout, "stdout", 1), (process.stderr, "stderr", 2))
        with selectors.DefaultSelector() as selector:
            for stream, name, descriptor in streams:
                assert stream is not None
                selector.register(stream, selectors.EVENT_READ, self._line_relay(name, descriptor))
            ended = None
            while selector.get_map():
                ready = selector.select(_QUIET_SECONDS)
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    if data:
                        key.data.feed(data)
                    else:
                        key.data.flush()
                        selector.unregister(key.fileobj)
                if not ready:
                    for key in selector.get_map().values():
                        key.data.flush()
                if ended is None and process.poll() is not None:
                    ended = time.monotonic()
                if ended is not None and time.monotonic() > ended + _DRAIN_SECONDS:
                    return

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

    def _fail(self, returncode: int, why: str = "") -> int:
        if why:
            self._last_lines.append(why)
        self._report(
            Failed(
                instance=self._instance.index,
                host=socket.gethostname(),
                returncode=returncode,
                last_lines=tuple(self._last_lines),
            )
        )
        end_rest_of_group()
        return status_of(returncode)

    def _report(self, report: Started | Failed) -> None:
        # Without a launcher there is nobody to tell.
        with contextlib.suppress(BrokenPipeError):
            write_all(2, encoded(report, self._description.token))


def _digest(script: str) -> str:
    """Returns what tells a script from others: a short hash of its bytes."""
    try:
        return hashlib.sha256(Path(script).read_bytes()).hexdigest()[:16] if script else ""
    except OSError:
        return "missing"
