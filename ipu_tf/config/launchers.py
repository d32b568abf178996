"""Refuses to run as one of several processes of a job."""

from __future__ import annotations

import os
from collections.abc import Mapping

INDEPENDENT = "IPU_TF_INDEPENDENT_PROCESSES"
"""The environment variable that allows several processes, which know nothing of each other."""

_OF_LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
"""Variables with the number of processes that `mpirun`, `mpiexec` or `srun` started."""

_OF_ALLOCATION = "SLURM_NTASKS"
"""The number of tasks of a Slurm step, or of an allocation, in which one process may run."""


def check_one_process(environment: Mapping[str, str] = os.environ) -> None:
    """Refuses to go on as one of several processes of a job: each would train alone.

    Args:
        environment: The variables of the environment.

    Raises:
        RuntimeError: A launcher's variables name more than one process.
    """
    if environment.get(INDEPENDENT) == "1":
        return
    found = _processes(environment)
    if found is None:
        return
    count, variables = found
    values = ", ".join(f"{name}={environment[name]}" for name in variables)
    raise RuntimeError(
        f"The environment says that {count} processes share this job, but ipu_tf runs a job in one "
        "process: each of them would train alone. Start the script once, without poprun, mpirun or "
        "srun, and configure the IPUs of all replicas (auto_select_ipus). If this is the only "
        f"process, unset {' and '.join(variables)}; if the processes are independent of each "
        f"other, set {INDEPENDENT}=1. Received: {values}."
    )


def _processes(environment: Mapping[str, str]) -> tuple[int, tuple[str, ...]] | None:
    """Returns the number of processes where it is above 1, and the variables that say so."""
    names = ("POPDIST_NUM_TOTAL_REPLICAS", "POPDIST_NUM_LOCAL_REPLICAS")
    total, local = (_number(environment, name) for name in names)
    if total is not None and total > (local or 1):
        return -(-total // (local or 1)), names if local else names[:1]
    is_started = False
    for name in _OF_LAUNCHERS:
        count = _number(environment, name)
        if count is not None and count > 1:
            return count, (name,)
        is_started = is_started or count is not None
    tasks = None if is_started else _number(environment, _OF_ALLOCATION)
    return (tasks, (_OF_ALLOCATION,)) if tasks is not None and tasks > 1 else None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name, "")
    return int(value) if value.isdecimal() else None
