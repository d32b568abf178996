"""The options of `poprun`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ipu_tf.base.user_objects import UsageError
from ipu_tf.processes.launch.hosts import read_host_file, read_hosts

_OF_PARTITIONS = "the simulated IPUs need no V-IPU partition"
WITHOUT_EFFECT: Mapping[str, str] = MappingProxyType(
    {
        "--vipu-server-host": _OF_PARTITIONS,
        "--vipu-server-port": _OF_PARTITIONS,
        "--vipu-server-timeout": _OF_PARTITIONS,
        "--vipu-partition": _OF_PARTITIONS,
        "--vipu-partition-attempts": _OF_PARTITIONS,
        "--vipu-cluster": _OF_PARTITIONS,
        "--vipu-allocation": _OF_PARTITIONS,
        "--update-partition": _OF_PARTITIONS,
        "--reset-partition": _OF_PARTITIONS,
        "--remove-partition": _OF_PARTITIONS,
        "--num-ilds": "the links between IPUs are those of the machine",
        "--sync-type": "all IPUs synchronise in the same way",
        "--numa-aware": "instances share out the cores in any case",
        "--offline-mode": "there is no IPU to attach to",
        "--allow-run-as-root": "root may run jobs",
        "--debug": "-v says what is started",
        "--overwrite-config": "--export-config overwrites its file",
        "--version-format": "--version prints text",
    }
)
"""Options that are accepted and do nothing, and why."""

_FLAGS = ("--allow-run-as-root", "--debug")
_ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType({"--sync-type": ("--sync",)})
_WITH_ANY_VALUE = ("--mpi-local-args", "--mpi-global-args")
_WITHOUT_VALUE = ("-v", "-vv", "--vv", "--verbose", "-h", "--help", "--version", "--tag-output")
_NOT_KEPT = ("program", "import_config", "export_config", "command", "parser", "json")
_YES = {"yes": True, "1": True, "true": True, "on": True}
_NO = {"no": False, "0": False, "false": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """What to start, and how.

    Attributes:
        program: The words of the program's command line.
        instances: The number of processes.
        replicas: The replicas of all of them.
        ipus_per_replica: The IPUs of a replica.
        hosts: Where they run, equally many on each; empty for this machine, or what a scheduler
            has allocated.
        mpi_arguments: What the caller has for mpirun, in the words of Open MPI or of MPICH.
        executable_cache_path: Folder of compiled programs, "" for none.
        only_output_from: The only instance whose output is passed on; None for all.
        tags_output: Whether each line says which instance wrote it.
        prints_topology: Whether to print where each instance runs.
        verbosity: 1 says what is started, 2 also says with which environment.
        start_seconds: How long to wait until every instance has started.
    """

    program: tuple[str, ...]
    instances: int = 1
    replicas: int = 1
    ipus_per_replica: int = 1
    hosts: tuple[str, ...] = ()
    mpi_arguments: str = ""
    executable_cache_path: str = ""
    only_output_from: int | None = None
    tags_output: bool = False
    prints_topology: bool = False
    verbosity: int = 0
    start_seconds: float = 120.0

    def __post_init__(self) -> None:
        if not self.program:
            raise UsageError("no program to start. Name one: poprun [options] python3 script.py")
        for name, value in (
            ("--num-instances", self.instances),
            ("--num-replicas", self.replicas),
            ("--ipus-per-replica", self.ipus_per_replica),
        ):
            if value < 1:
                raise UsageError(f"{name} must be at least 1. Received: {value}.")
        if self.replicas % self.instances:
            raise UsageError(
                "every instance has equally many replicas: --num-instances must divide "
                f"--num-replicas, the number of all of them. Received: {self.instances} instances, "
                f"{self.replicas} replicas."
            )
        if self.hosts and self.instances % len(self.hosts):
            raise UsageError(
                "every host has equally many instances: the number of hosts must divide "
                f"--num-instances. Received: {len(self.hosts)} hosts, {self.instances} instances."
            )
        if self.only_output_from is not None and self.only_output_from >= self.instances:
            raise UsageError(
                f"--only-output-from-instance must be below {self.instances}, the number of "
                f"instances. Received: {self.only_output_from}."
            )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `poprun` to a parser."""
    add = parser.add_argument
    add(
        "--num-replicas",
        type=int,
        metavar="N",
        help="the replicas of all of them; default: one each",
    )
    add("--num-instances", type=int, metavar="N", help="the processes; default: 1")
    add("--ipus-per-replica", type=int, metavar="N", help="the IPUs of a replica; default: 1")
    add("-H", "--host", "--hosts", metavar="HOSTS", help="where to run: a,b or host[0-2,4]")
    add("--hostfile", type=Path, metavar="FILE", help="the same, a host a line")
    add("--print-topology", metavar="yes|no", help="print where each instance runs")
    add("--tag-output", action="store_true", help="begin each line with [1,<instance>]<stream>:")
    add("--only-output-from-instance", type=int, metavar="N", help="pass on only its output")
    cached = "accepted, without effect: the instances of a host share compiled programs"
    add("--executable-cache-path", metavar="DIR", help=cached)
    add("--mpi-global-args", metavar="ARGS", help="arguments of mpirun, in one word")
    add("--mpi-local-args", metavar="ARGS", help="the same; -x NAME=VALUE sets a variable")
    add("--start-timeout", type=float, metavar="S", help="end if not all start; default: 120")
    add("--import-config", type=Path, metavar="FILE", help="read options; those given here win")
    add("--export-config", type=Path, metavar="FILE", help="write the options there")
    add("-v", "--verbose", action="count", help="print what is started; -vv: and its environment")
    add("--vv", dest="verbose", action="store_const", const=2, help="the same as -vv")
    for name in WITHOUT_EFFECT:
        kind: dict[str, Any] = {"action": "store_true"} if name in _FLAGS else {"metavar": "ARG"}
        add(name, *_ALIASES.get(name, ()), help="without effect", **kind)
    add("program", nargs=argparse.REMAINDER, help="python3 or any other program, and its words")


def join_words(words: Sequence[str]) -> list[str]:
    """Returns a command line with "--mpi-local-args", "-x A" as one word, as argparse needs it."""
    line, queue = list[str](), list(words)
    while queue and queue[0].startswith("-"):
        word = queue.pop(0)
        if word == "--":
            break  # The program follows.
        if word in _WITH_ANY_VALUE and queue:
            line.append(f"{word}={queue.pop(0)}")
            continue
        line.append(word)
        if "=" not in word and word not in (*_WITHOUT_VALUE, *_FLAGS) and queue:
            line.append(queue.pop(0))
    return [*line, *queue]


def launch_options(parsed: argparse.Namespace) -> LaunchOptions:
    """Returns the options of a command line, with those of the file that it imports.

    Raises:
        UsageError: An option has an invalid value, or a file cannot be read or written.
    """
    values = _options_of(parsed)
    if parsed.import_config is not None:
        values = _options_of(_options_in_file(parsed.import_config)) | values
    if parsed.export_config is not None:
        _export(parsed.export_config, values)
    hosts: tuple[str, ...] = ()
    if values.get("host") and values.get("hostfile"):
        raise UsageError("give --host or --hostfile, not both.")
    if values.get("host"):
        hosts = read_hosts(values["host"])
    elif values.get("hostfile"):
        hosts = read_host_file(Path(values["hostfile"]))
    mpi_arguments = " ".join(values.get(name, "") for name in ("mpi_global_args", "mpi_local_args"))
    return LaunchOptions(
        program=tuple(parsed.program),
        instances=values.get("num_instances", 1),
        replicas=values.get("num_replicas", values.get("num_instances", 1)),
        ipus_per_replica=values.get("ipus_per_replica", 1),
        hosts=hosts,
        mpi_arguments=mpi_arguments.strip(),
        executable_cache_path=values.get("executable_cache_path", ""),
        only_output_from=values.get("only_output_from_instance"),
        tags_output=values.get("tag_output", False) or "--tag-output" in mpi_arguments,
        prints_topology=_yes(values.get("print_topology", "no"), "--print-topology"),
        verbosity=values.get("verbose", 0),
        start_seconds=values.get("start_timeout", 120.0),
    )


def without_effect(parsed: argparse.Namespace) -> list[str]:
    """Returns the given options that do nothing here, each with the reason."""
    return [
        f"{name} has no effect: {why}"
        for name, why in WITHOUT_EFFECT.items()
        if getattr(parsed, name[2:].replace("-", "_"))
    ]


def _options_of(parsed: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that a command line gives, as a file keeps them."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(parsed).items()
        if value is not None and value is not False and name not in _NOT_KEPT
    }


def _options_in_file(path: Path) -> argparse.Namespace:
    """Returns the options that a file keeps, as a command line would give them."""
    try:
        values = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read --import-config {path}: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(f"--import-config {path} is no JSON: {error}.") from error
    if not isinstance(values, dict):
        raise UsageError(f"--import-config {path} must hold an object, as --export-config writes.")
    words = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if name == "verbose":
            words += ["-v"] * int(value)
        elif value is True:
            words.append(option)
        else:
            words.append(f"{option}={value}")
    parser = argparse.ArgumentParser(prog=f"--import-config {path}", add_help=False)
    add_arguments(parser)
    return parser.parse_args(words)


def _export(path: Path, values: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(values, indent=1) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write --export-config {path}: {error.strerror}.") from error


def _yes(word: str, option: str) -> bool:
    value = (_YES | _NO).get(word.lower())
    if value is None:
        raise UsageError(f"{option} must be yes or no. Received: {word!r}.")
    return value
