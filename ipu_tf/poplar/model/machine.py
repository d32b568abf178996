"""The machine of a Poplar target: the IPUs of a replica, their links, and how long they sync."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ipu_tf.machine import host, link_traffic, streaming, sync
from ipu_tf.machine.system import System, system_of
from ipu_tf.machine.target import CHIPS, Target
from ipu_tf.poplar.model.graph import TargetNumbers

_CHIPS = {"ipu1": "gc2", "ipu2": "gc200"}


class NotModelledError(Exception):
    """Cycles and memory of a program are not modelled; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The IPUs of a graph.

    Attributes:
        system: A system that has them, with chips of the target's numbers.
        ipus: IPUs of a replica.
        replicas: Copies of the graph, which run side by side.
        link_sync_cycles: Cycles of a sync of several IPUs besides that of their tiles; 0 for those
            of the system.
    """

    system: System
    ipus: int = 1
    replicas: int = 1
    link_sync_cycles: int = 0

    @property
    def target(self) -> Target:
        """The chip of every IPU."""
        return self.system.target

    @property
    def tiles(self) -> int:
        """Tiles of a replica, numbered IPU after IPU."""
        return self.ipus * self.target.tiles

    def sync_of(self, replicas: int = 1) -> int:
        """Returns the cycles of a sync of all tiles of some replicas."""
        ipus = self.ipus * replicas
        if ipus > 1 and self.link_sync_cycles:
            return self.target.sync_cycles + self.link_sync_cycles
        return sync.cross_ipu_cycles(self.system, _partition(ipus))

    def link_cycles(self, transfers: Mapping[tuple[int, int], tuple[int, int]]) -> int:
        """Returns the cycles in which IPUs send to each other; see `link_traffic`."""
        return round(link_traffic.exchange_seconds(self.system, transfers) * self.target.clock_hz)

    def host_cycles(self, transfer_bytes: int, ipus: int) -> int:
        """Returns the cycles of a transfer between the host and some IPUs of each replica.

        Args:
            transfer_bytes: Bytes of a replica.
            ipus: IPUs of a replica that hold a part.
        """
        taking = 1 << ((self.replicas * max(1, ipus)).bit_length() - 1)  # Bound: powers of two.
        return host.transfer_cycles(self.system, self.replicas * transfer_bytes, taking)

    def streaming_cycles(self, transfer_bytes: int) -> int:
        """Returns the cycles of a transfer between an IPU and its streaming memory.

        Raises:
            NotModelledError: The system has none.
        """
        if not self.system.streaming.machine_bytes:
            raise NotModelledError(
                "An IPU of version ipu1 has no streaming memory, so copies of remote buffers have "
                'no cycles. Use an IPUModel("ipu2").'
            )
        seconds = streaming.transfer_seconds(self.system, transfer_bytes)
        return round(seconds * self.target.clock_hz)


def machine_of(target: TargetNumbers) -> Machine:
    """Returns the machine with the numbers of a target.

    Raises:
        NotModelledError: The target is a CPU, or has more IPUs than any system.
    """
    if target["kind"] == "cpu":
        raise NotModelledError(
            "A CPU target has no tiles, so there are no cycles to report. Use an IPUModel, or a "
            "device of TargetType::IPU."
        )
    chip = CHIPS[_CHIPS[target["version"]]]
    target_chip = dataclasses.replace(
        chip,
        tiles=target["tiles_per_ipu"],
        workers=target["workers"],
        tile_bytes=target["tile_bytes"],
        system_bytes=min(chip.system_bytes, target["tile_bytes"] - 1),
        exchange_bytes_per_cycle=target["exchange_bytes_per_cycle"],
        paired_exchange_bytes_per_cycle=2 * target["exchange_bytes_per_cycle"],
        clock_hz=target["clock_hz"],
        sync_cycles=target.get("sync_cycles", chip.sync_cycles),
    )
    ipus, replicas = target["ipus"], target.get("replication_factor", 1)
    try:
        system = system_of(target_chip, _partition(ipus * replicas))
    except ValueError as error:
        raise NotModelledError(str(error)) from None
    return Machine(
        system=system,
        ipus=ipus,
        replicas=replicas,
        link_sync_cycles=target.get("link_sync_cycles", 0),
    )


def _partition(ipus: int) -> int:
    """Returns the IPUs that a number of them takes: a power of two, as the machine has it."""
    return 1 << (ipus - 1).bit_length()
