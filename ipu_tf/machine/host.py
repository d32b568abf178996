"""Seconds of transfers between host memory and tiles.

Models a latency and the narrower of an IPU's own rate and that of the connection it shares; of data
that is known ahead, the way between an IPU and the gateway of its machine, and the host's way to
the gateway beside the work of the IPU. Does not model the host's own work on the data.
"""

from __future__ import annotations

from ipu_tf.machine.system import System


def bytes_per_second(system: System, ipus: int = 1) -> float:
    """Returns the rate into the first `ipus` IPUs of a system together.

    Raises:
        ValueError: The system does not have that many IPUs.
    """
    system.check_ipus(ipus)
    groups = -(-ipus // system.host.group_ipus)
    return min(ipus * system.host.ipu_bytes_per_second, groups * system.host.group_bytes_per_second)


def sharing_replicas(system: System, replicas: int, replica_ipus: int) -> int:
    """Returns how many of a system's replicas share a connection to the host."""
    return max(1, min(replicas, system.host.group_ipus // replica_ipus))


def transfer_seconds(system: System, transfer_bytes: float, ipus: int = 1) -> float:
    """Returns the time of a transfer to or from the first `ipus` IPUs, spread evenly."""
    return system.host.latency_seconds + transfer_bytes / bytes_per_second(system, ipus)


def feed_cycles(system: System, transfer_bytes: float, ipus: int = 1) -> tuple[int, int]:
    """Returns the cycles of a transfer that is known ahead: of tiles, and of the host beside them.

    The memory of a gateway has the data before the tiles ask for it, and takes their results. So
    the tiles wait for the way to the gateway alone; the host's connection is busy beside their
    work. Without a gateway, tiles wait for the whole transfer, and the second number is 0.

    Args:
        system: The system.
        transfer_bytes: Bytes of one IPU.
        ipus: IPUs that make such transfers at the same time, over one connection to the host.
    """
    port = system.host.gateway_ipu_bytes_per_second
    if not port:
        return transfer_cycles(system, ipus * transfer_bytes, ipus), 0
    clock = system.target.clock_hz
    wait_seconds = system.host.latency_seconds + transfer_bytes / port
    return round(wait_seconds * clock), round(
        ipus * transfer_bytes / bytes_per_second(system, ipus) * clock
    )


def round_trip_cycles(system: System) -> int:
    """Returns the tile cycles of the way from the host to the IPUs of a system and back."""
    return 2 * transfer_cycles(system, 0)


def transfer_cycles(system: System, transfer_bytes: float, ipus: int = 1) -> int:
    """Returns the tile cycles of a transfer to or from the first `ipus` IPUs."""
    return round(transfer_seconds(system, transfer_bytes, ipus) * system.target.clock_hz)
