"""Starts processes of a job by `mpiexec`."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

from ipu_tf.processes.instances import Instances

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a job ended, and what it printed."""

    status: int
    text: str


def run_instances(count, module, *arguments, replicas=None, ipus=1, **environment):
    """Returns how `python -m module arguments` ended in so many instances.

    Args:
        count: The number of instances.
        module: The module that each runs.
        arguments: Its arguments.
        replicas: Replicas of all instances, as many as instances by default.
        ipus: IPUs of a replica.
        environment: Further variables of the environment.
    """
    total = replicas or count
    command = [str(Path(sys.executable).parent / "mpiexec")]
    for index in range(count):
        local = total // count
        job = Instances(
            index=index,
            count=count,
            local_index=index,
            total_replicas=total,
            local_replicas=local,
            replica_offset=index * local,
            ipus_per_replica=ipus,
            launcher="poprun",
        )
        command += [":"] if index else []
        command += ["-n", "1"]
        for name, value in job.variables().items():
            command += ["-env", name, value]
        command += [sys.executable, "-W", "error", "-m", module, *arguments]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PMI")}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=inherited | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout)
