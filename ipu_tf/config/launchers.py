"""Refuses to train as one of several processes of a job."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ipu_tf.processes.instances import INDEPENDENT, instances


def check_one_process(environment: Mapping[str, str] = os.environ) -> None:
    """Refuses to go on as one of several processes of a job: each would train alone.

    Args:
        environment: The variables of the environment.

    Raises:
        RuntimeError: A launcher's variables name more than one process.
    """
    job = instances(environment)
    if job.count == 1:
        return
    raise RuntimeError(
        f"{job.launcher} started {job.count} instances, and the programs of an IPUStrategy are of "
        "one: each instance would train alone. Make a PopDistStrategy "
        "(ipu_tf.distributed.popdist_strategy), which joins the replicas of all instances, or "
        f"start one: poprun --num-instances=1 --num-replicas={job.total_replicas}. If the "
        f"instances are independent of each other, set {INDEPENDENT}=1."
    )
