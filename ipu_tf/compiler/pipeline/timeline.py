"""The time of a schedule: each slot takes as long as its slowest IPU, then its link transfers.

Values that cross in one slot share the links of their routes; replicas have routes of their own. So
do a replica's neighbours while replicas add up gradients.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ipu_tf.compiler.pipeline.schedule import Pass, Slot
from ipu_tf.machine import io_tiles, link_traffic, links, streaming, sync
from ipu_tf.machine.system import System
from ipu_tf.tile_program.device_program import Crossing, Timeline

PassCycles: TypeAlias = Mapping[tuple[int, Pass], int]
"""Cycles of the passes, by stage and direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """Replicas that take part in a collective; all replicas are in such groups at once.

    Attributes:
        replicas: Number of replicas of a group.
        stride: Replicas from one of the group to the next.
    """

    replicas: int
    stride: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The connections between the IPUs of a replica.

    Attributes:
        system: The system.
        ipus: IPU of each stage within a replica.
        replica_ipus: IPUs of a replica.
        replicas: Replicas.
        io_tiles: Tiles of each IPU that make transfers beside the work of the others.
    """

    system: System
    ipus: tuple[int, ...]
    replica_ipus: int
    replicas: int = 1
    io_tiles: int = 0

    def transfer_cycles(self, crossings: Iterable[Crossing]) -> int:
        """Returns the cycles in which stages hand values to each other, all at once.

        Values between stages on one IPU stay where they are. Replicas of several IPUs have boards
        of their own, within which their routes stay.
        """
        ways: dict[tuple[int, int], int] = collections.defaultdict(int)
        for crossing in crossings:
            source, destination = self.ipus[crossing.source], self.ipus[crossing.destination]
            if source != destination:
                ways[source, destination] += crossing.bytes
        if not ways:
            return 0
        seconds = link_traffic.exchange_seconds(
            self.system, {ends: (sent_bytes, 1) for ends, sent_bytes in ways.items()}
        )
        return self._cycles(seconds) + sync.cross_ipu_cycles(self.system, self.replica_ipus)

    def streaming_cycles(self, transfer_bytes: int) -> int:
        """Returns the cycles of a transfer between an IPU and its streaming memory.

        Raises:
            ValueError: The system has no streaming memory.
        """
        return self._cycles(streaming.transfer_seconds(self.system, transfer_bytes))

    def io_tile_cycles(self, transfer_bytes: int) -> int:
        """Returns the cycles in which a transfer moves between the I/O tiles and the others."""
        target = self.system.target
        return target.sync_cycles + io_tiles.exchange_cycles(transfer_bytes, self.io_tiles, target)

    def all_reduce_cycles(self, operand_bytes: int, group: ReplicaGroup | None = None) -> int:
        """Returns the cycles in which replicas add up the values of each of their IPUs.

        The corresponding IPUs of the replicas form a ring: they hand on shares, then sums. The
        rings of a replica's other IPUs, and of other groups, use the same links at the same time.

        Args:
            operand_bytes: Bytes of the values.
            group: The replicas that add up; None for all.
        """
        return self._collective_cycles(links.all_reduce_seconds, operand_bytes, group)

    def reduce_scatter_cycles(self, operand_bytes: int, group: ReplicaGroup | None = None) -> int:
        """Returns the cycles after which each replica has a share of the sums (reduce-scatter)."""
        return self._collective_cycles(links.reduce_scatter_seconds, operand_bytes, group)

    def all_gather_cycles(self, result_bytes: int, group: ReplicaGroup | None = None) -> int:
        """Returns the cycles after which each replica has all shares (all-gather)."""
        return self._collective_cycles(links.all_gather_seconds, result_bytes, group)

    def _collective_cycles(
        self, seconds: Callable[..., float], whole_bytes: int, group: ReplicaGroup | None
    ) -> int:
        """Returns the cycles of a collective between the corresponding IPUs of replicas.

        It starts with a sync of all IPUs, at which the slowest replica arrives.
        """
        group = group or ReplicaGroup(replicas=self.replicas)
        if group.replicas == 1 or not whole_bytes:
            return 0
        apart = self.replica_ipus * group.stride
        transfer_seconds = seconds(self.system, group.replicas, whole_bytes, replica_ipus=apart)
        everyone = self.replica_ipus * self.replicas
        return self._cycles(transfer_seconds) + sync.cross_ipu_cycles(self.system, everyone)

    def _cycles(self, seconds: float) -> int:
        return round(seconds * self.system.target.clock_hz)


def timeline(
    slots: Iterable[Slot], cycles: PassCycles, crossings: Sequence[Crossing], wiring: Wiring
) -> Timeline:
    """Returns the timeline of the slots of a weight update.

    Args:
        slots: The passes that run side by side, slot after slot.
        cycles: Cycles of each pass.
        crossings: Values that stages hand to each other.
        wiring: The IPUs.
    """
    after_pass: dict[tuple[int, Pass], list[Crossing]] = collections.defaultdict(list)
    for crossing in crossings:
        if crossing.phase != "update":
            after_pass[crossing.source, crossing.phase].append(crossing)
    busy: dict[int, int] = dict.fromkeys(sorted(set(wiring.ipus)), 0)
    cycles_of_slots: dict[frozenset[tuple[int, Pass]], tuple[int, int]] = {}
    lengths: list[int] = []
    link_cycles: list[int] = []
    all_slots = list(slots)
    for slot in all_slots:
        passes = frozenset((work.stage, work.direction) for work in slot)
        for stage, direction in passes:
            busy[wiring.ipus[stage]] += cycles[stage, direction]
        if passes not in cycles_of_slots:
            transfers = [crossing for one in sorted(passes) for crossing in after_pass[one]]
            cycles_of_slots[passes] = (
                _slowest(passes, cycles, wiring),
                wiring.transfer_cycles(transfers),
            )
        lengths.append(sum(cycles_of_slots[passes]))
        link_cycles.append(cycles_of_slots[passes][1])
    begin, end = _steady(all_slots, stages=len(wiring.ipus))
    return Timeline(
        slots=len(all_slots),
        ramp_up_cycles=sum(lengths[:begin]),
        steady_cycles=sum(lengths[begin:end]),
        ramp_down_cycles=sum(lengths[end:]),
        link_cycles=sum(link_cycles),
        slot_link_cycles=tuple(link_cycles) if any(link_cycles) else (),
        busy_cycles=tuple(busy.values()),
    )


def _slowest(passes: Iterable[tuple[int, Pass]], cycles: PassCycles, wiring: Wiring) -> int:
    """Returns the cycles of the slowest IPU; passes on one IPU run in sequence."""
    of_ipus: dict[int, int] = collections.defaultdict(int)
    for stage, direction in passes:
        of_ipus[wiring.ipus[stage]] += cycles[stage, direction]
    return max(of_ipus.values())


def _steady(slots: Sequence[Slot], *, stages: int) -> tuple[int, int]:
    """Returns the indices of the slots at which ramp-up ends and ramp-down begins."""
    last = stages - 1
    with_last = [n for n, slot in enumerate(slots) if any(work.stage == last for work in slot)]
    if not with_last:
        return 0, len(slots)
    return with_last[0], with_last[-1] + 1
