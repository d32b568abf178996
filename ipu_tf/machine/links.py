"""Seconds of traffic between IPUs, over IPU-Links and gateways.

Models a route by its hops (a board's own links, rails to further boards, a gateway between racks),
transfers by latency, messages and bytes, and collectives by a ring. Does not model several routes
that share a link, unless they are given as one transfer.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def bytes_per_second(system: System, way: Route) -> float:
    """Returns the rate of a route in one direction: that of its narrowest part."""
    links = _links(system)
    if way.gateway_hops and not links.gateway_bytes_per_second:
        raise ValueError(
            f"{system.name} has no gateway links: routes stay within one link domain. "
            f"Received: {way!r}."
        )
    one_link = links.link_bytes_per_second * links.efficiency
    rates = [links.gateway_bytes_per_second] if way.gateway_hops else []
    if way.rail_hops:
        rates.append(links.rail_links * one_link)
    elif way.crosses_board:
        rates.append(links.board_links * one_link)
    return min(rates, default=float("inf"))


def tile_bytes_per_second(system: System) -> float:
    """Returns the rate at which one tile sends over links: its exchange rate less the packets."""
    chip = system.target
    return chip.exchange_bytes_per_cycle * chip.clock_hz * _links(system).efficiency


def transfer_seconds(system: System, way: Route, transfer_bytes: float, messages: int = 1) -> float:
    """Returns the time of messages that take one route at once.

    Every IPU between the ends both receives and sends each message.

    Args:
        system: The system.
        way: The route.
        transfer_bytes: Bytes of all messages together.
        messages: Number of messages, one for every pair of tiles that talk.
    """
    handled = messages * max(2 * way.hops - 1, 0) * _links(system).message_seconds
    streamed = transfer_bytes / bytes_per_second(system, way)
    return latency_seconds(system, way) + max(handled, streamed)


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


def all_gather_seconds(system: System, ipus: int, result_bytes: float) -> float:
    """Returns the time of an all-gather: `ipus` IPUs, each with a share, all get a whole tensor.

    A ring: every IPU passes shares on to the next, `ipus - 1` times.

    Raises:
        ValueError: The system does not have that many IPUs.
    """
    system.check_ipus(ipus)
    if ipus == 1:
        return 0.0
    steps = [route(system, ipu, (ipu + 1) % ipus) for ipu in range(ipus)]
    slowest = max(transfer_seconds(system, way, result_bytes / ipus) for way in steps)
    return (ipus - 1) * slowest


def reduce_scatter_seconds(system: System, ipus: int, operand_bytes: float) -> float:
    """Returns the time of a reduce-scatter: `ipus` IPUs add their tensors and keep a share each.

    The traffic of an all-gather, backwards; the tiles' model covers the additions.
    """
    return all_gather_seconds(system, ipus, operand_bytes)


def all_reduce_seconds(system: System, ipus: int, operand_bytes: float) -> float:
    """Returns the time of an all-reduce: `ipus` IPUs add their tensors and all get the sum."""
    return reduce_scatter_seconds(system, ipus, operand_bytes) + all_gather_seconds(
        system, ipus, operand_bytes
    )


def _links(system: System) -> LinkTiming:
    if system.links is None:
        raise ValueError(
            f"{system.name} has no IPU-Links: it is a single IPU. Choose a system of several."
        )
    return system.links
