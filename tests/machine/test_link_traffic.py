"""Routes over physical links, and the time of transfers that share them, against a plain walk."""

import collections
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.machine import link_traffic, links, sync
from ipu_tf.machine.system import SYSTEMS, system

C2 = system("dss8440")
POD64 = system("bow-pod64")
POD256 = system("bow-pod256")
JOINED = [C2, system("bow-pod16"), POD64, POD256]
MIB = 1 << 20


@st.composite
def phases(draw, systems=JOINED):
    where = draw(st.sampled_from(systems))
    ipu = st.integers(0, where.ipus - 1)
    ends = st.tuples(ipu, ipu).filter(lambda pair: pair[0] != pair[1])
    loads = st.tuples(st.integers(0, 1 << 24), st.integers(1, 2000))
    return where, draw(st.dictionaries(ends, loads, min_size=1, max_size=12))


def walked(where, source, destination):
    """Returns the links that a walk from IPU to IPU takes, and how many there are side by side."""
    taken, ipu, one_board = [], source, source // 2 == destination // 2
    if source % 2 != destination % 2:
        ipu = source + 1 if source % 2 == 0 else source - 1
        side_by_side = where.links.board_links if one_board else where.links.rail_links
        taken.append(((source, ipu, one_board), side_by_side))
    ways = []
    for step in (2, -2) if destination > ipu else (-2, 2):
        at, stops = ipu, []
        while at != destination and 0 <= at < where.ipus:
            stops.append((at, at + step))
            at += step
            if where.ring:
                at %= where.ipus
        if at == destination:
            ways.append(stops)
    shortest = min(ways, key=len)
    return taken + [((*ends, False), where.links.rail_links) for ends in shortest]


def interpreted(where, transfers):
    """Returns the time of a phase within one link domain, link after link."""
    queues = collections.defaultdict(list)
    for ends, load in transfers.items():
        for link, _ in walked(where, *ends):
            queues[link].append(load)
    slowest = 0.0
    for ends in transfers:
        taken = walked(where, *ends)
        latency = links.latency_seconds(where, links.route(where, *ends))
        for link, side_by_side in taken:
            rate = side_by_side * where.links.link_bytes_per_second * where.links.efficiency
            of_bytes = sum(size for size, _ in queues[link]) / rate
            of_messages = sum(messages for _, messages in queues[link])
            of_messages *= (2 * len(taken) - 1) * where.links.message_seconds
            slowest = max(slowest, latency + max(of_bytes, of_messages))
    return slowest


@given(phases([C2, system("bow-pod16"), POD64]))
def test_a_phase_takes_as_long_as_link_after_link(phase):
    assert link_traffic.exchange_seconds(*phase) == pytest.approx(interpreted(*phase), rel=1e-12)


@given(phases())
def test_a_path_joins_its_ends_over_as_many_links_as_its_route_has(phase):
    where, transfers = phase
    for source, destination in transfers:
        lanes = link_traffic.path(where, source, destination)
        way = links.route(where, source, destination)
        assert lanes[0].source == source
        assert lanes[-1].destination == destination
        assert all(one.destination == then.source for one, then in itertools.pairwise(lanes))
        assert len(lanes) == way.hops + 2 * bool(way.gateway_hops)
        assert len(set(lanes)) == len(lanes)


@given(phases())
def test_a_path_back_takes_links_of_the_same_kinds_and_the_same_time(phase):
    where, transfers = phase
    turned = {"port in": "port out", "port out": "port in"}
    for ends, load in transfers.items():
        there, back = (link_traffic.path(where, *way) for way in (ends, ends[::-1]))
        assert sorted(turned.get(lane.kind, lane.kind) for lane in there) == sorted(
            lane.kind for lane in back
        )
        seconds = link_traffic.exchange_seconds(where, {ends: load})
        assert link_traffic.exchange_seconds(where, {ends[::-1]: load}) == seconds


@pytest.mark.parametrize("name", [name for name, one in SYSTEMS.items() if one.ipus > 1])
@given(data=st.data())
def test_a_pair_alone_takes_a_transfer(name, data):
    where = SYSTEMS[name]
    source, destination = (data.draw(st.integers(0, where.ipus - 1)) for _ in range(2))
    size, messages = data.draw(st.integers(0, 1 << 30)), data.draw(st.integers(1, 2000))
    alone = links.transfer_seconds(where, links.route(where, source, destination), size, messages)
    transfers = {(source, destination): (size, messages)}
    assert link_traffic.exchange_seconds(where, transfers) == alone


@given(phases(), st.integers(1, 1 << 24))
def test_more_bytes_and_more_transfers_never_take_less_time(phase, more):
    where, transfers = phase
    whole = link_traffic.exchange_seconds(where, transfers)
    for ends, (size, messages) in transfers.items():
        larger = transfers | {ends: (size + more, messages)}
        fewer = {other: load for other, load in transfers.items() if other != ends}
        assert link_traffic.exchange_seconds(where, fewer) <= whole
        assert whole <= link_traffic.exchange_seconds(where, larger)


@pytest.mark.parametrize("where", JOINED, ids=lambda where: where.name)
def test_two_routes_over_a_link_take_twice_the_time(where):
    latency = links.latency_seconds(where, links.route(where, 0, 4))
    far, near = {(0, 4): (MIB, 1)}, {(2, 4): (MIB, 1)}
    alone = link_traffic.exchange_seconds(where, far) - latency
    both = link_traffic.exchange_seconds(where, far | near) - latency
    assert both == pytest.approx(2 * alone)


def test_either_direction_of_a_link_is_free_of_the_other():
    there, back = {(0, 4): (MIB, 1)}, {(4, 0): (MIB, 1)}
    alone = link_traffic.exchange_seconds(POD64, there)
    assert link_traffic.exchange_seconds(POD64, there | back) == alone


def test_passing_traffic_leaves_a_boards_own_links_free():
    own, passing = {(0, 1): (16 * MIB, 1)}, {(0, 3): (MIB, 1)}
    alone = link_traffic.exchange_seconds(C2, own)
    assert link_traffic.exchange_seconds(C2, own | passing) == alone


def test_the_ipus_of_a_machine_share_its_gateway():
    crossing = {(ipu, ipu + 64): (1 << 30, 1) for ipu in range(4)}
    latency = links.latency_seconds(POD256, links.Route(gateway_hops=1))
    whole = link_traffic.exchange_seconds(POD256, crossing) - latency
    assert whole == pytest.approx(4 * (1 << 30) / (25e9 * 0.85))


def test_nothing_moves_in_no_time():
    assert link_traffic.exchange_seconds(POD64, {}) == 0
    assert link_traffic.exchange_seconds(POD64, {(3, 3): (MIB, 1)}) == 0


def test_a_path_ends_at_ipus_of_the_system():
    with pytest.raises(ValueError, match=r"dss8440 has IPUs 0 to 15\. Received: 16"):
        link_traffic.exchange_seconds(C2, {(0, 16): (1, 1)})


@pytest.mark.parametrize("replica_ipus", [2, 4, 8, 16, 32])
@given(data=st.data())
def test_replicas_have_links_of_their_own(replica_ipus, data):
    ipu = st.integers(0, replica_ipus - 1)
    load = st.tuples(st.integers(1, 1 << 24), st.just(1))
    of_one = data.draw(st.dictionaries(st.tuples(ipu, ipu), load, max_size=8))
    of_all = {
        (source + first, destination + first): load
        for first in range(0, POD64.ipus, replica_ipus)
        for (source, destination), load in of_one.items()
    }
    alone = link_traffic.exchange_seconds(POD64, of_one)
    assert link_traffic.exchange_seconds(POD64, of_all) == alone


@pytest.mark.parametrize("replica_ipus", [1, 2, 4, 8])
@pytest.mark.parametrize("where", [C2, system("bow-pod16"), POD64], ids=lambda where: where.name)
def test_rings_of_replicas_share_links_as_their_transfers_do(where, replica_ipus):
    replicas = where.ipus // replica_ipus
    ring = [*range(0, replicas, 2), *reversed(range(1, replicas, 2))]
    step = {
        (replica * replica_ipus + ipu, after * replica_ipus + ipu): (MIB, 1)
        for replica, after in zip(ring, ring[1:] + ring[:1], strict=True)
        for ipu in range(replica_ipus)
    }
    steps = replicas - 1
    if where.phased_collectives and replica_ipus == 1:
        step |= {(after, replica): load for (replica, after), load in step.items()}
        steps = replicas // 2
    sync_seconds = where.target.seconds(sync.cross_ipu_cycles(where, where.ipus))
    expected = steps * (link_traffic.exchange_seconds(where, step) + sync_seconds)
    whole = links.all_gather_seconds(where, replicas, replicas * MIB, replica_ipus=replica_ipus)
    assert whole == pytest.approx(expected, rel=1e-9)
