"""Runs a job: starts its instances, passes on what they write, and ends all when one fails."""

from __future__ import annotations

import os
import secrets
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ipu_tf.processes.launch.children import ending, ending_with_parent, status_of
from ipu_tf.processes.launch.job_description import JobDescription
from ipu_tf.processes.launch.mpi import Arguments, Mpi, mpi_command
from ipu_tf.processes.launch.options import LaunchOptions
from ipu_tf.processes.launch.output import write_all
from ipu_tf.processes.launch.programs import program_command, script_of
from ipu_tf.processes.launch.reports import Failed, ReportReader, Started

_ROOT = str(Path(__file__).resolve().parents[3])
_INSTANCE = (
    f"import sys; sys.path.insert(0, {_ROOT!r}); "
    "from ipu_tf.processes.launch.instance import main; main(sys.argv[1:])"
)
_POLL_SECONDS = 0.2
_OWN_END_SECONDS = 0.5
"""How long mpirun may take to end a job by itself once an instance has failed."""

_TOLD_SECONDS = 15.0
"""The same where the instance tells the others, each of which says what it waited for."""

_KILL_SECONDS = 5.0
"""How long it may take once it is asked to."""

_FAILED = 1
_FLAGS = "TF_POPLAR_FLAGS"


class Job:
    """The instances of a job.

    Args:
        mpi: What starts them.
        options: What to start, and how.
        arguments: The caller's words for mpirun.
    """

    def __init__(self, mpi: Mpi, options: LaunchOptions, arguments: Arguments) -> None:
        self._mpi = mpi
        self._options = options
        self._arguments = arguments
        self._token = secrets.token_hex(8)
        self._start_reports: dict[int, Started] = {}
        self._status: int | None = None
        self._signal: int | None = None
        self._own_end_seconds = _OWN_END_SECONDS

    def command(self) -> list[str]:
        """Returns the command line that starts all instances.

        Raises:
            UsageError: There is no such program.
        """
        options = self._options
        program = program_command(options.program)
        description = JobDescription(
            token=self._token,
            instances=options.instances,
            per_host=options.instances // max(len(options.hosts), 1),
            replicas=options.replicas,
            ipus_per_replica=options.ipus_per_replica,
            only_output_from=options.only_output_from,
            tags_output=options.tags_output,
            pins_cores=not any("bind-to" in word for word in self._arguments.words),
            script=script_of(options.program),
        )
        own = [sys.executable, "-I", "-S", "-c", _INSTANCE, description.word()]
        return mpi_command(self._mpi, options, self._arguments, [*own, *program])

    def environment(self) -> dict[str, str]:
        """Returns the environment that all instances have in common."""
        return job_environment(self._options, self._mpi, self._arguments)

    def run(self) -> int:
        """Runs the job; returns the status of the instance that failed first, or 0."""
        command = self.command()
        if self._options.verbosity:
            print(f"poprun: {shlex.join(command)}", file=sys.stderr, flush=True)
        before = {each: signal.signal(each, self._stop) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            process = subprocess.Popen(
                command,
                env=self.environment(),
                stderr=subprocess.PIPE,
                preexec_fn=ending_with_parent(signal.SIGTERM),
            )
            with process:
                self._follow(process)
                return self._result(process.wait())
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Passes on the error output of the job until it ends; ends it when an instance fails."""
        assert process.stderr is not None
        reader = ReportReader(
            self._token, write=lambda data: write_all(2, data), receive=self._receive
        )
        limit, ask, kill = time.monotonic() + self._options.start_seconds, 0.0, 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stderr, selectors.EVENT_READ)
            while True:
                if selector.select(_POLL_SECONDS):
                    data = os.read(process.stderr.fileno(), 1 << 16)
                    if not data:
                        break
                    reader.feed(data)
                elif process.poll() is not None:
                    break  # Something that the job left behind holds its output open.
                now = time.monotonic()
                if now > limit and self._status is None and len(self._start_reports) < self._count:
                    self._fail(_FAILED, self._absent_instances())
                if self._status is None and self._signal is None:
                    continue
                ask = ask or now + (self._own_end_seconds if self._signal is None else 0)
                if now >= ask and not kill:
                    process.terminate()
                    kill = now + _KILL_SECONDS
                elif kill and now >= kill:
                    process.kill()
        reader.close()

    @property
    def _count(self) -> int:
        return self._options.instances

    def _receive(self, report: Started | Failed) -> None:
        if isinstance(report, Started):
            self._start_reports[report.instance] = report
            first = self._start_reports[min(self._start_reports)]
            if report.digest != first.digest and self._status is None:
                self._fail(_FAILED, _other_program(self._options.program, first, report))
        elif self._status is None and self._signal is None:
            self._own_end_seconds = _TOLD_SECONDS if report.tells_others else _OWN_END_SECONDS
            self._fail(status_of(report.returncode), _failure_text(report, self._count))

    def _fail(self, status: int, message: str) -> None:
        self._status = status
        _tell(message)

    def _absent_instances(self) -> str:
        hosts = self._options.hosts
        per_host = self._count // max(len(hosts), 1)
        absent = ", ".join(
            f"{index} on {hosts[index // per_host]}" if hosts else f"{index}"
            for index in range(self._count)
            if index not in self._start_reports
        )
        return (
            f"after {self._options.start_seconds:g} s (--start-timeout) these instances have not "
            f"started: {absent}. All others are ended. Check that the hosts can be reached by ssh "
            f"without a password, and have {sys.executable} and {_ROOT}."
        )

    def _result(self, returncode: int) -> int:
        if self._status is not None:
            return self._status
        if self._signal is not None:
            return 128 + self._signal
        if returncode:
            _tell(
                f"{self._mpi.path} {ending(returncode)}, and no instance has reported why: it "
                "called MPI_Abort, or was lost with its host. "
                f"{len(self._start_reports)} of {self._count} instances had started."
            )
        return status_of(returncode)

    def _stop(self, number: int, _: object) -> None:
        self._signal = number


def job_environment(options: LaunchOptions, mpi: Mpi, arguments: Arguments) -> dict[str, str]:
    """Returns the environment that all instances of a job have in common.

    Args:
        options: What is started.
        mpi: What starts it.
        arguments: The caller's words for mpirun.
    """
    environment = {"PYTHONUNBUFFERED": "1"}  # Output is passed on when it is written.
    if (library := mpi.library()) is not None:
        environment["MPI4PY_LIBMPI"] = str(library)
    environment |= os.environ | dict(arguments.environment)
    if options.executable_cache_path:
        flag = f"--executable_cache_path={shlex.quote(options.executable_cache_path)}"
        environment[_FLAGS] = f"{environment.get(_FLAGS, '')} {flag}".strip()
    return environment


def _failure_text(report: Failed, count: int) -> str:
    subject = (
        f"instance {report.instance} of {count}, on {report.host}, {ending(report.returncode)}"
    )
    if count == 1:
        return f"{subject}."
    lines = "".join(f"\n  {line}" for line in report.last_lines)
    return f"{subject}; all others are ended. Its last lines:{lines or ' none.'}"


def _other_program(words: Sequence[str], one: Started, two: Started) -> str:
    return (
        f"instance {one.instance} on {one.host} and instance {two.instance} on {two.host} have "
        f"different files {script_of(words)!r}. All instances are ended. Start the job from a "
        "folder that all hosts share, or copy the program to each."
    )


def _tell(message: str) -> None:
    print(f"poprun: {message}", file=sys.stderr, flush=True)
