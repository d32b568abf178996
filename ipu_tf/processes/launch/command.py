"""What the command `poprun` does."""

from __future__ import annotations

import argparse
import json
import sys

from ipu_tf.processes.launch.job import Job
from ipu_tf.processes.launch.mpi import find_mpi, understood
from ipu_tf.processes.launch.options import launch_options, without_effect
from ipu_tf.processes.launch.topology import topology, topology_text

DESCRIPTION = (
    "Starts the instances of a job, which are processes of one program that share its replicas, by "
    "MPICH's mpiexec or Open MPI's mpirun. When one fails, all are ended, and the status is its."
)


def launch(parsed: argparse.Namespace, *, as_json: bool = False) -> int:
    """Runs the job of a command line; returns the status of the instance that failed first.

    Args:
        parsed: The options, as `add_arguments` declares them.
        as_json: Print the topology as JSON.

    Raises:
        UsageError: An option has an invalid value, or there is no such program or no MPI.
    """
    options = launch_options(parsed)
    mpi = find_mpi()
    arguments = understood(options.mpi_arguments, mpi.family)
    job = Job(mpi, options, arguments)
    for line in without_effect(parsed):
        print(f"poprun: {line}", file=sys.stderr)
    for word in arguments.without_effect:
        print(f"poprun: {word} has no effect: {mpi.path} is MPICH's", file=sys.stderr)
    if as_json:
        print(json.dumps(topology(options), indent=1), flush=True)
    elif options.prints_topology:
        print(topology_text(options), flush=True)
    return job.run()
