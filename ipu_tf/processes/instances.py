"""Which of a job's processes this one is, as the launcher's variables say it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

INDEPENDENT = "IPU_TF_INDEPENDENT_PROCESSES"
"""The environment variable that allows several processes, which know nothing of each other."""

TOTAL_REPLICAS = "POPDIST_NUM_TOTAL_REPLICAS"
LOCAL_REPLICAS = "POPDIST_NUM_LOCAL_REPLICAS"
REPLICA_OFFSET = "POPDIST_REPLICA_INDEX_OFFSET"
IPUS_PER_REPLICA = "POPDIST_NUM_IPUS_PER_REPLICA"
LOCAL_INDEX = "POPDIST_LOCAL_INSTANCE_INDEX"
UNIFORM = "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE"

_RANKS_AND_SIZES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Where `mpirun`, `mpiexec` and `srun` say a process's number and the number of processes."""

_OF_ALLOCATION = "SLURM_NTASKS"
"""The number of tasks of a Slurm step, or of an allocation, in which one process may run."""


class LaunchError(RuntimeError):
    """The launcher's variables are no job of poprun, or contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """The processes of a job, and this one among them.

    Attributes:
        index: The number of this process.
        count: The number of processes.
        local_index: The number of this process among those of its host.
        total_replicas: The replicas of all processes.
        local_replicas: The replicas of this process, as many as of each other.
        replica_offset: The number of this process's first replica among all.
        ipus_per_replica: The IPUs of a replica.
        launcher: What started the process: "poprun", or "" where nothing did.
    """

    index: int = 0
    count: int = 1
    local_index: int = 0
    total_replicas: int = 1
    local_replicas: int = 1
    replica_offset: int = 0
    ipus_per_replica: int = 1
    launcher: str = ""

    def __post_init__(self) -> None:
        if self.total_replicas != self.count * self.local_replicas:
            raise LaunchError(
                f"Every instance has equally many replicas, but {self.count} instances of "
                f"{self.local_replicas} replicas are not the job's {self.total_replicas}. Start "
                "the job by poprun, with a --num-replicas that --num-instances divides."
            )
        if self.replica_offset != self.index * self.local_replicas or self.index >= self.count:
            raise LaunchError(
                f"The first replica of instance {self.index} of {self.count} has the number "
                f"{self.index * self.local_replicas}. Received: {REPLICA_OFFSET}="
                f"{self.replica_offset}. Start the job by poprun, which sets it."
            )

    @property
    def is_launched(self) -> bool:
        """Whether poprun started this process, be it the only one."""
        return bool(self.launcher)

    def variables(self) -> dict[str, str]:
        """Returns the environment variables that say this, all but the process's rank and size."""
        return {
            TOTAL_REPLICAS: str(self.total_replicas),
            LOCAL_REPLICAS: str(self.local_replicas),
            REPLICA_OFFSET: str(self.replica_offset),
            IPUS_PER_REPLICA: str(self.ipus_per_replica),
            LOCAL_INDEX: str(self.local_index),
            UNIFORM: "1",
        }


def instances(environment: Mapping[str, str] = os.environ) -> Instances:
    """Returns which process of which job this is.

    Args:
        environment: The variables of the environment.

    Returns:
        The only instance, if no launcher started the process or if `IPU_TF_INDEPENDENT_PROCESSES`
        is 1.

    Raises:
        LaunchError: Something else than poprun started several processes, or the variables
            contradict each other.
    """
    if environment.get(INDEPENDENT) == "1":
        return Instances()
    launch = rank_and_size(environment)
    if not environment.get(TOTAL_REPLICAS):
        _check_alone(launch, environment)
        return Instances()
    total = _number(environment, TOTAL_REPLICAS, least=1)
    local = _number(environment, LOCAL_REPLICAS, least=1, default=1)
    offset = _number(environment, REPLICA_OFFSET, default=0)
    count, index = -(-total // local), offset // local
    if launch is None and count > 1:
        raise LaunchError(
            f"{_settings(environment, TOTAL_REPLICAS, LOCAL_REPLICAS)} say that {count} instances "
            "share this job, but no mpirun started this process: the others would never come. "
            "Start the job by `poprun --num-instances=... --num-replicas=... python3 script.py`, "
            f"or unset {TOTAL_REPLICAS} if this is the only process."
        )
    if launch is not None and launch[:2] != (index, count):
        raise LaunchError(
            f"The variables of poprun say instance {index} of {count}, those of MPI rank "
            f"{launch[0]} of {launch[1]}. Start the job by poprun alone, which calls mpirun. "
            f"Received: "
            f"{_settings(environment, TOTAL_REPLICAS, LOCAL_REPLICAS, REPLICA_OFFSET, *launch[2])}"
            "."
        )
    return Instances(
        index=index,
        count=count,
        local_index=_number(environment, LOCAL_INDEX, default=0),
        total_replicas=total,
        local_replicas=local,
        replica_offset=offset,
        ipus_per_replica=_number(environment, IPUS_PER_REPLICA, least=1, default=1),
        launcher="poprun",
    )


def rank_and_size(
    environment: Mapping[str, str] = os.environ,
) -> tuple[int, int, tuple[str, str]] | None:
    """Returns a process's number, how many there are, and the variables that say so.

    Args:
        environment: The variables that an mpirun or srun has set; without them there is None.
    """
    for names in _RANKS_AND_SIZES:
        rank, size = (environment.get(name, "") for name in names)
        if size.isdecimal():
            return int(rank) if rank.isdecimal() else 0, int(size), names
    return None


def _check_alone(
    launch: tuple[int, int, tuple[str, str]] | None, environment: Mapping[str, str]
) -> None:
    """Refuses several processes that poprun did not start: each of them would train alone."""
    if launch is not None:
        count, variable = launch[1], launch[2][1]
    else:
        tasks, variable = environment.get(_OF_ALLOCATION, ""), _OF_ALLOCATION
        count = int(tasks) if tasks.isdecimal() else 1
    if count < 2:
        return
    raise LaunchError(
        f"The environment says that {count} processes share this job, but poprun did not start "
        f"them: each of them would train alone. Start the job by `poprun --num-instances={count} "
        "--num-replicas=... python3 script.py`, without mpirun or srun: poprun calls them. If "
        f"this is the only process, unset {variable}; if the processes are independent of each "
        f"other, set {INDEPENDENT}=1. Received: {_settings(environment, variable)}."
    )


def _number(
    environment: Mapping[str, str], name: str, *, least: int = 0, default: int | None = None
) -> int:
    value = environment.get(name, "")
    if not value and default is not None:
        return default
    if not value.isdecimal() or int(value) < least:
        raise LaunchError(
            f"{name} must be a whole number of at least {least}. Received: {value!r}. Start the "
            "job by poprun, which sets it, or unset it."
        )
    return int(value)


def _settings(environment: Mapping[str, str], *names: str) -> str:
    return ", ".join(f"{name}={environment[name]}" for name in names if name in environment)
