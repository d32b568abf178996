"""Seconds in which IPUs send to each other at once, with the links that their routes share.

Models each direction of a bundle of links as a lane of its own, through which the bytes and the
messages of all routes over it pass one after the other. Does not model tiles that wait for each
other, nor other ways than the routes when a link is busy.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from ipu_tf.machine import links
from ipu_tf.machine.links import Route
from ipu_tf.machine.system import IPUS_PER_BOARD, System

LaneKind: TypeAlias = Literal["board", "rung", "rail", "port out", "gateway", "port in"]
"""A board's own links; those of a board for traffic that passes through; links to the next board;
an IPU's connection to the gateway of its machine; links of a machine to the next rack."""


class Lane(NamedTuple):
    """One direction of the links between two neighbours.

    Attributes:
        kind: What they connect.
        source: IPU that sends; for "gateway" and "port in" a machine.
        destination: IPU that receives; for "port out" and "gateway" a machine.
    """

    kind: LaneKind
    source: int
    destination: int


def path(system: System, source: int, destination: int) -> tuple[Lane, ...]:
    """Returns the lanes from one IPU of a system to another, in order; none to itself.

    Over the rung of the ladder first if the other rail leads to the destination, then along the
    rail: poplibs' test model of multi-IPU targets traces routes so (lib/poplibs_test/Util.cpp). The
    rung has links of its own for traffic from or to other boards (CIT 2.1, and the same model). A
    ring is taken the shorter way round, and not over its closing link if both are as long:
    modelled. So is the way to other racks: rails of the source's rack lead to the board with the
    destination's number, whose gateway sends.

    Raises:
        ValueError: The system does not have one of the IPUs.
    """
    way = links.route(system, source, destination)
    lanes: list[Lane] = []
    ipu = source
    if way.crosses_board:
        across = ipu ^ 1
        lanes.append(Lane("rung" if way.rail_hops else "board", ipu, across))
        ipu = across
    domain = system.ipus_per_link_domain
    for next_ipu in _along_rail(ipu, destination % domain, way.rail_hops, domain):
        lanes.append(Lane("rail", ipu, next_ipu))
        ipu = next_ipu
    if way.gateway_hops:
        lanes.extend(_over_gateways(system, ipu, destination, way.gateway_hops))
    return tuple(lanes)


def exchange_seconds(
    system: System, transfers: Mapping[tuple[int, int], tuple[float, int]]
) -> float:
    """Returns the time in which IPUs send to each other, all at once; 0 if nothing moves.

    Each transfer takes the latency of its route and the time of its busiest lane, which passes on
    what all transfers send over it; a transfer alone takes `links.transfer_seconds`.

    Args:
        system: The system.
        transfers: Bytes and messages from one IPU to another, by both.

    Raises:
        ValueError: The system does not have one of the IPUs, or no links between them.
    """
    paths = {ends: path(system, *ends) for ends in transfers}
    lane_bytes: dict[Lane, float] = collections.defaultdict(int)
    lane_messages: dict[Lane, int] = collections.defaultdict(int)
    for ends, (sent_bytes, messages) in transfers.items():
        for lane in paths[ends]:
            lane_bytes[lane] += sent_bytes
            lane_messages[lane] += messages
    kinds = {lane.kind for lane in lane_bytes}
    rates = {kind: _lane_bytes_per_second(system, kind) for kind in kinds}
    seconds = {lane: total / rates[lane.kind] for lane, total in lane_bytes.items()}
    busiest = {  # Many routes are alike, and take the same time
        (
            links.route(system, *ends),
            max(map(lane_messages.__getitem__, lanes)),
            max(map(seconds.__getitem__, lanes)),
        )
        for ends, lanes in paths.items()
        if lanes
    }
    return max((links.queued_seconds(system, *one) for one in busiest), default=0.0)


def _along_rail(ipu: int, place: int, hops: int, domain: int) -> Iterator[int]:
    """Yields the IPUs of a rail that a route reaches, to the board of a place in the domain."""
    first, rail = ipu - ipu % domain, ipu % IPUS_PER_BOARD
    board, last = ipu % domain // IPUS_PER_BOARD, place // IPUS_PER_BOARD
    boards = -(-domain // IPUS_PER_BOARD)
    straight = abs(last - board) == hops
    step = 1 if (last > board) == straight else -1
    for _ in range(hops):
        board = (board + step) % boards
        yield first + IPUS_PER_BOARD * board + rail


def _over_gateways(system: System, ipu: int, destination: int, racks: int) -> Iterator[Lane]:
    """Yields the lanes from an IPU to the one with its place so many racks further."""
    machine = ipu // system.ipus_per_machine
    rack_machines = -(-system.ipus_per_link_domain // system.ipus_per_machine)
    step = rack_machines if destination > ipu else -rack_machines
    yield Lane("port out", ipu, machine)
    for _ in range(racks):
        yield Lane("gateway", machine, machine + step)
        machine += step
    yield Lane("port in", machine, destination)


def _lane_bytes_per_second(system: System, kind: LaneKind) -> float:
    """Returns the rate of a kind of lane."""
    if kind == "gateway":
        way = Route(gateway_hops=1)
        return links.bytes_per_second(system, way, senders=system.ipus_per_machine)
    return links.bytes_per_second(system, _ALIKE[kind])


_ALIKE: Mapping[LaneKind, Route] = {
    "board": Route(crosses_board=True),
    "rung": Route(rail_hops=1),  # As many links as a rail: CIT 2.1, and poplibs' model
    "rail": Route(rail_hops=1),
    "port out": Route(gateway_hops=1),
    "port in": Route(gateway_hops=1),
}
"""The shortest route whose rate is that of a lane."""
