"""Shares out the cores of a host to its instances, and the threads with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_THREADS_OF_CORES = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
_OPERATIONS = "TF_NUM_INTEROP_THREADS"
_LEAST_OPERATIONS = 2
"""A function that waits for a program inside of it holds a thread itself."""


def share_of_cores(cores: Collection[int], index: int, count: int) -> tuple[int, ...]:
    """Returns the cores of an instance: a run of equal length, or one core where they are few.

    Args:
        cores: The numbers of the cores that the host allows.
        index: The number of the instance among those of its host.
        count: The number of instances of the host.
    """
    ordered = sorted(cores)
    if count >= len(ordered):
        return (ordered[index % len(ordered)],)
    return tuple(ordered[index * len(ordered) // count : (index + 1) * len(ordered) // count])


def thread_variables(cores: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that limit an instance's threads to its cores.

    Args:
        cores: The number of its cores.
        environment: Its environment, whose own choice of threads stays.
    """
    variables = {name: str(cores) for name in _THREADS_OF_CORES}
    variables[_OPERATIONS] = str(max(cores, _LEAST_OPERATIONS))
    return {name: value for name, value in variables.items() if not environment.get(name)}
