"""Seconds of traffic between IPUs, over IPU-Links and gateways.

Models a route by its hops (a board's own links, rails to further boards, a gateway between racks),
transfers by latency, messages and bytes, and collectives by rings, a superstep a step. Rings of
replicas share links; `link_traffic` models other routes that do.
"""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.machine import sync
from ipu_tf.machine.link_timing import LinkTiming
from ipu_tf.machine.system import IPUS_PER_BOARD, System


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way from an IPU to another.

    Attributes:
        rail_hops: Number of boards that it passes along the rails.
        crosses_board: Whether it also takes the links between two IPUs of a board.
        gateway_hops: Number of racks that it passes.
    """

    rail_hops: int = 0
    crosses_board: bool = False
    gateway_hops: int = 0

    @property
    def hops(self) -> int:
        """Links one after the other."""
        return self.rail_hops + self.crosses_board + self.gateway_hops


def route(system: System, source: int, destination: int) -> Route:
    """Returns the way from one IPU of a system to another.

    Raises:
        ValueError: The system does not have one of the IPUs.
    """
    for ipu in (source, destination):
        if not 0 <= ipu < system.ipus:
            raise ValueError(f"{system.name} has IPUs 0 to {system.ipus - 1}. Received: {ipu!r}.")
    domain = system.ipus_per_link_domain
    boards = -(-domain // IPUS_PER_BOARD)
    apart = abs(source % domain // IPUS_PER_BOARD - destination % domain // IPUS_PER_BOARD)
    return Route(
        rail_hops=min(apart, boards - apart) if system.ring else apart,
        crosses_board=source % IPUS_PER_BOARD != destination % IPUS_PER_BOARD,
        gateway_hops=abs(source // domain - destination // domain),
    )


def latency_seconds(system: System, way: Route) -> float:
    """Returns the latency of a route, the ways on both chips not included."""
    links = _links(system)
    seconds = way.gateway_hops * links.gateway_hop_seconds
    if way.rail_hops:
        seconds += links.rail_hop_seconds + (way.rail_hops - 1) * links.further_hop_seconds
        return seconds + (links.turn_seconds if way.crosses_board else 0.0)
    return seconds + (links.board_hop_seconds if way.crosses_board else 0.0)


def bytes_per_second(system: System, way: Route, senders: int = 1) -> float:
    """Returns the rate of a route in one direction: that of its narrowest part.

    Args:
        system: The system.
        way: The route.
        senders: IPUs of a machine that send at once, each over its own connection to the gateway.
    """
    links = _links(system)
    if way.gateway_hops and not links.gateway_bytes_per_second:
        raise ValueError(
            f"{system.name} has no gateway links: routes stay within one link domain. "
            f"Received: {way!r}."
        )
    one_link = links.link_bytes_per_second * links.efficiency
    rates = []
    if way.gateway_hops:
        ports = senders * links.gateway_ipu_bytes_per_second
        rates.append(min(links.gateway_bytes_per_second, ports) * links.efficiency)
    if way.rail_hops:
        rates.append(links.rail_links * one_link)
    elif way.crosses_board:
        rates.append(links.board_links * one_link)
    return min(rates, default=float("inf"))


def tile_bytes_per_second(system: System) -> float:
    """Returns the rate at which one tile sends over links: its exchange rate less the packets."""
    chip = system.target
    return chip.exchange_bytes_per_cycle * chip.clock_hz * _links(system).efficiency


def transfer_seconds(
    system: System, way: Route, transfer_bytes: float, messages: int = 1, senders: int = 1
) -> float:
    """Returns the time of messages that take one route at once.

    Every IPU between the ends both receives and sends each message.

    Args:
        system: The system.
        way: The route.
        transfer_bytes: Bytes of all messages together.
        messages: Number of messages, one for every pair of tiles that talk.
        senders: IPUs of a machine that send at once, each over its own connection to the gateway.
    """
    streamed = transfer_bytes / bytes_per_second(system, way, senders)
    return queued_seconds(system, way, messages, streamed)


def queued_seconds(system: System, way: Route, messages: int, seconds_of_bytes: float) -> float:
    """Returns the time of a route whose narrowest part passes on messages of several transfers.

    Args:
        system: The system.
        way: The route.
        messages: Number of messages of all transfers.
        seconds_of_bytes: Time that their bytes take there.
    """
    message_seconds = messages * max(2 * way.hops - 1, 0) * _links(system).message_seconds
    return latency_seconds(system, way) + max(message_seconds, seconds_of_bytes)


def random_traffic_seconds(system: System, ipus: int, message_bytes: float, messages: int) -> float:
    """Returns the time of messages between random tiles of the first `ipus` IPUs.

    Half of the messages cross the middle of the rails, in both directions; they travel half the
    rails' length on average. Bound: the traffic on either side of the middle is no less even.

    Args:
        system: The system.
        ipus: IPUs that take part, at least 4.
        message_bytes: Bytes of each message.
        messages: Messages of all IPUs together.

    Raises:
        ValueError: There are fewer than two boards, or more IPUs than the system has.
    """
    system.check_ipus(ipus)
    if ipus <= IPUS_PER_BOARD:
        raise ValueError(
            f"Random traffic crosses boards: give more than {IPUS_PER_BOARD} IPUs. "
            f"Received: {ipus!r}."
        )
    boards = ipus // IPUS_PER_BOARD
    way = Route(rail_hops=max(boards // 2, 1), crosses_board=True)
    crossing = -(-messages // 2)
    over_one_rail = -(-crossing // (2 * IPUS_PER_BOARD))
    return transfer_seconds(system, way, over_one_rail * message_bytes, over_one_rail)


def all_gather_seconds(
    system: System, ipus: int, result_bytes: float, *, replica_ipus: int = 1
) -> float:
    """Returns the time of an all-gather: `ipus` IPUs, each with a share, all get a whole tensor.

    One ring over all IPUs; with the system's `phased_collectives` first a ring over corresponding
    IPUs of link domains, which gathers their shares across gateways, then one within each domain.
    An all-reduce of these has the phases that GCL's release notes tell of (3.0.0: groups that span
    several link domains). See `_ring_seconds` for the ways round.

    Args:
        system: The system.
        ipus: IPUs that take part.
        result_bytes: Bytes of the whole tensor.
        replica_ipus: IPUs of a replica if those that take part are corresponding IPUs of replicas.
            The other IPUs of the replicas have rings of their own over the same links.

    Raises:
        ValueError: The system does not have that many IPUs.
    """
    everyone, domain = ipus * replica_ipus, system.ipus_per_link_domain
    system.check_ipus(everyone)
    if not system.phased_collectives or everyone <= domain or replica_ipus >= domain:
        return _ring_seconds(system, ipus, result_bytes, replica_ipus)
    domains = everyone // domain
    within = ipus // domains
    across_seconds = _ring_seconds(system, domains, result_bytes / within, domain)
    return across_seconds + _ring_seconds(system, within, result_bytes, replica_ipus)


def reduce_scatter_seconds(
    system: System, ipus: int, operand_bytes: float, *, replica_ipus: int = 1
) -> float:
    """Returns the time of a reduce-scatter: `ipus` IPUs add their tensors and keep a share each.

    The traffic of an all-gather, backwards; the tiles' model covers the additions.
    """
    return all_gather_seconds(system, ipus, operand_bytes, replica_ipus=replica_ipus)


def all_reduce_seconds(
    system: System, ipus: int, operand_bytes: float, *, replica_ipus: int = 1
) -> float:
    """Returns the time of an all-reduce: `ipus` IPUs add their tensors and all get the sum.

    A reduce-scatter, then an all-gather of the sums.
    """
    return sum(
        part(system, ipus, operand_bytes, replica_ipus=replica_ipus)
        for part in (reduce_scatter_seconds, all_gather_seconds)
    )


def _ring_seconds(system: System, ipus: int, result_bytes: float, replica_ipus: int) -> float:
    """Returns the time of an all-gather in a ring over corresponding IPUs of replicas.

    The ring goes up the ladder over every second replica and down over the others, as in poplibs'
    collectives of replicas, so that its ends meet. All pass shares on at the same time, which is a
    superstep: one way round, `ipus - 1` times. Rings of replicas of several boards thus fill rails
    both ways, while that of single IPUs leaves a direction of each link idle. Phased collectives
    send shares of the latter both ways, to meet half-way round in half as many supersteps: the
    method "meet_in_middle_ring", which poplibs picks for more than two replicas of one IPU, or
    "bidirectional_ring_pair" of the same bytes (poplibs 3.4, ReplicatedCollectives.cpp).
    """
    if ipus == 1:
        return 0.0
    share_bytes = result_bytes / ipus
    slowest = max(
        transfer_seconds(system, way, share_bytes * rings, senders=rings)
        for way in _ring_ways(system, ipus, replica_ipus)
        for rings in (_rings_on(system, way, replica_ipus),)
    )
    both_ways = system.phased_collectives and replica_ipus == 1 and ipus > 2
    steps = ipus // 2 if both_ways else ipus - 1
    sync_seconds = system.target.seconds(sync.cross_ipu_cycles(system, ipus * replica_ipus))
    return steps * (slowest + sync_seconds)


def _ring_ways(system: System, ipus: int, replica_ipus: int) -> set[Route]:
    """Returns the ways between neighbours of a ring over corresponding IPUs of replicas."""
    up, down = range(0, ipus, 2), range(1, ipus, 2)
    ring = [replica * replica_ipus for replica in (*up, *reversed(down))]
    return {
        route(system, ipu, next_ipu)
        for ipu, next_ipu in zip(ring, ring[1:] + ring[:1], strict=True)
    }


def _rings_on(system: System, way: Route, replica_ipus: int) -> int:
    """Returns how many rings of replicas share a link of a way: those of a rail, or of a machine.

    The IPUs of a machine share its gateway, those of both rails; other machines have their own.
    """
    if way.gateway_hops:
        return min(replica_ipus, system.ipus_per_machine)
    return max(1, replica_ipus // IPUS_PER_BOARD)


def _links(system: System) -> LinkTiming:
    if system.links is None:
        raise ValueError(
            f"{system.name} has no IPU-Links: it is a single IPU. Choose a system of several."
        )
    return system.links
