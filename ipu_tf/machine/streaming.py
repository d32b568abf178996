"""Seconds of transfers between streaming memory (beside the IPUs of a machine) and tiles.

The rate is a bound: no measurement of it is published. Does not model several IPUs that use the
memory of one machine at once.
"""

from __future__ import annotations

from ipu_tf.machine.system import System


def capacity_bytes(system: System, ipus: int) -> int:
    """Returns the streaming memory of the machines of the first `ipus` IPUs.

    Raises:
        ValueError: The system does not have that many IPUs.
    """
    system.check_ipus(ipus)
    machines = -(-ipus // system.ipus_per_machine)
    return machines * system.streaming.machine_bytes


def transfer_seconds(system: System, transfer_bytes: float) -> float:
    """Returns the time of a transfer between one IPU and its machine's streaming memory.

    Raises:
        ValueError: The system has no streaming memory.
    """
    if not system.streaming.machine_bytes:
        raise ValueError(
            f"{system.name} has no streaming memory. Keep the tensor on tiles, or choose a system "
            "of IPU-Machines such as 'm2000' or 'bow-2000'."
        )
    timing = system.streaming
    return timing.latency_seconds + transfer_bytes / timing.ipu_bytes_per_second
