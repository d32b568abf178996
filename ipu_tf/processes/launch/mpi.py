"""The MPI that starts processes: which one there is, and its command line."""

from __future__ import annotations

import enum
import itertools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ipu_tf.base.user_objects import UsageError
from ipu_tf.processes.launch.options import LaunchOptions

CHOICE = "IPU_TF_MPIRUN"
"""The environment variable that names the mpirun or mpiexec to use."""

_NAMES = ("mpiexec", "mpirun")
_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONUNBUFFERED")
_PREFIXES = ("IPU_TF_", "IPUOF_", "KERAS_", "MPI4PY_", "OMP_", "POPLAR_", "TF_", "XLA_")
"""The variables of this process that Open MPI is to set on other hosts; MPICH sets all there."""


class Family(enum.Enum):
    """The kinds of MPI, by the file names of their libraries."""

    MPICH = "libmpi.so.12"
    OPEN_MPI = "libmpi.so.40"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    """What starts processes.

    Attributes:
        path: Its mpirun or mpiexec.
        family: The kind of MPI.
    """

    path: str
    family: Family

    def library(self) -> Path | None:
        """Returns its library, for mpi4py; None where it is not beside it but in the system's."""
        path = Path(self.path).parent.parent / "lib" / self.family.value
        return path if path.exists() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """A caller's arguments for mpirun.

    Attributes:
        words: Those that this mpirun understands.
        environment: Variables of the instances.
        without_effect: Those of another MPI that mean nothing here.
    """

    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()


def find_mpi(environment: Mapping[str, str] = os.environ) -> Mpi:
    """Returns the MPI of this Python's environment, or else of the system.

    Args:
        environment: `IPU_TF_MPIRUN` and `PATH` are looked up there.

    Raises:
        UsageError: There is none, or it is neither MPICH nor Open MPI.
    """
    of_python = str(Path(sys.executable).parent)
    folders = os.pathsep.join((of_python, environment.get("PATH", os.defpath)))
    choice = environment.get(CHOICE)
    paths = [shutil.which(name, path=folders) for name in ((choice,) if choice else _NAMES)]
    path = next((path for path in paths if path is not None), None)
    if path is None:
        raise UsageError(
            f"there is no {choice or 'mpiexec or mpirun'} to start instances with. Install an MPI: "
            "pip install 'ipu_tf[distributed]', or a system's package of MPICH or Open MPI; "
            f"{CHOICE} names its mpirun where it is not on PATH."
        )
    try:
        process = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=False, timeout=30
        )
        version = process.stdout + process.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        version = str(error)
    if "HYDRA" in version:
        return Mpi(path=path, family=Family.MPICH)
    if "Open MPI" in version or "OpenRTE" in version:
        return Mpi(path=path, family=Family.OPEN_MPI)
    raise UsageError(
        f"{path} is neither MPICH's mpiexec nor Open MPI's mpirun. Name one of these by {CHOICE}. "
        f"Its --version said: {version.strip()[:200]!r}."
    )


def understood(text: str, family: Family) -> Arguments:
    """Returns a caller's arguments for mpirun, of which published ones are in Open MPI's words.

    Args:
        text: The arguments, quoted as for a shell; no shell reads them.
        family: The kind of MPI.

    Raises:
        UsageError: A quotation is left open.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"--mpi-global-args and --mpi-local-args: {error}. Received: {text!r}."
        ) from error
    # Instances tag their lines themselves.
    words = [word for word in words if word not in ("--tag-output", "-tag-output")]
    return Arguments(words=tuple(words)) if family is Family.OPEN_MPI else _for_mpich(words)


def _for_mpich(words: Sequence[str]) -> Arguments:
    """Translates words of Open MPI for MPICH; leaves others as they are."""
    options, without_effect = list[str](), list[str]()
    environment = dict[str, str]()
    queue = list(words)
    while queue:
        word = queue.pop(0)
        name = f"--{word.lstrip('-')}"
        if word == "-x" and queue:
            variable, equals, value = queue.pop(0).partition("=")
            if equals:  # Without a value it is passed on in any case, as all variables are.
                environment[variable] = value
        elif name in ("--allow-run-as-root", "--oversubscribe", "--nooversubscribe"):
            continue  # MPICH always allows it.
        elif name in ("--mca", "--gmca") and len(queue) > 1:
            without_effect.append(f"--mca {queue.pop(0)} {queue.pop(0)}")
        elif name in ("--output-filename", "--map-by", "--report-bindings", "--merge-stderr"):
            takes_value = name in ("--output-filename", "--map-by") and queue
            without_effect.append(f"{name} {queue.pop(0)}" if takes_value else name)
        else:
            options.append(word)
    return Arguments(
        words=tuple(options), environment=environment, without_effect=tuple(without_effect)
    )


def mpi_command(
    mpi: Mpi, options: LaunchOptions, arguments: Arguments, instance: Sequence[str]
) -> list[str]:
    """Returns the command line that starts every instance.

    Args:
        mpi: What starts them.
        options: How many, and where.
        arguments: The caller's words.
        instance: The command line of an instance.
    """
    per_host = options.instances // max(len(options.hosts), 1)
    count = ["-n", str(options.instances)]
    if mpi.family is Family.MPICH:
        hosts = ["-hosts", ",".join(options.hosts), "-ppn", str(per_host)] if options.hosts else []
        return [mpi.path, *count, *hosts, *arguments.words, *instance]
    hosts = ["--host", ",".join(f"{host}:{per_host}" for host in options.hosts)]
    # Instances share out the cores themselves, also where they are more than the cores.
    placement = ["--oversubscribe", "--bind-to", "none"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        placement.append("--allow-run-as-root")
    script_names = {
        word.partition("=")[0]
        for option, word in itertools.pairwise(arguments.words)
        if option == "-x"
    }
    variables = [
        word for name in _variables_of_job() if name not in script_names for word in ("-x", name)
    ]
    host_words = hosts if options.hosts else []
    words = [word for word in arguments.words if word not in placement]
    return [mpi.path, *count, *host_words, *placement, *variables, *words, *instance]


def _variables_of_job() -> list[str]:
    return [name for name in os.environ if name in _VARIABLES or name.startswith(_PREFIXES)]
