"""What the launcher tells every instance, in one word of its command line."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from ipu_tf.processes.instances import Instances, LaunchError, rank_and_size

_RANKS_AND_SIZES_OF_HOST = (
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)
"""Where Open MPI and MPICH say a process's number among those of its host, and their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """A job, as each of its instances needs to know it.

    Attributes:
        token: The word that begins reports to the launcher.
        instances: The number of instances.
        per_host: How many of them each host has, where MPI does not say it.
        replicas: The replicas of all instances.
        ipus_per_replica: The IPUs of a replica.
        only_output_from: The only instance whose output is passed on; None for all.
        tags_output: Whether each line says which instance wrote it.
        pins_cores: Whether an instance chooses its cores; otherwise mpirun has bound it.
        script: The file among the program's words, "" for none.
    """

    token: str
    instances: int
    per_host: int
    replicas: int
    ipus_per_replica: int
    only_output_from: int | None = None
    tags_output: bool = False
    pins_cores: bool = True
    script: str = ""

    def word(self) -> str:
        """Returns the description as one word of a command line."""
        return json.dumps(dataclasses.asdict(self))

    def instance(self, environment: Mapping[str, str] = os.environ) -> Instances:
        """Returns the instance that MPI's variables make of this process.

        Raises:
            LaunchError: There are none, or they are of another number of processes.
        """
        ranks = rank_and_size(environment)
        if ranks is None or ranks[1] != self.instances:
            place = "no MPI rank" if ranks is None else f"one of {ranks[1]} MPI ranks"
            raise LaunchError(
                f"poprun asked mpirun for {self.instances} processes, but this one is {place}: "
                "arguments of mpirun must not change the number of processes."
            )
        local = self.replicas // self.instances
        local_index, _ = self.of_host(environment)
        return Instances(
            index=ranks[0],
            count=self.instances,
            local_index=local_index,
            total_replicas=self.replicas,
            local_replicas=local,
            replica_offset=ranks[0] * local,
            ipus_per_replica=self.ipus_per_replica,
            launcher="poprun",
        )

    def of_host(self, environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
        """Returns the number of this instance among those of its host, and how many these are."""
        for names in _RANKS_AND_SIZES_OF_HOST:
            rank, size = (environment.get(name, "") for name in names)
            if rank.isdecimal() and size.isdecimal():
                return int(rank), int(size)
        rank_of_all, _, _ = rank_and_size(environment) or (0, 1, ())
        return rank_of_all % self.per_host, self.per_host


def described(word: str) -> JobDescription:
    """Returns the description that a word of a command line holds."""
    return JobDescription(**json.loads(word))
