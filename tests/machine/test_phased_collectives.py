"""Collectives that go both ways round, and across gateways in a phase of their own."""

import dataclasses
from collections import defaultdict

import pytest

from ipu_tf.machine import links, sync, system, system_of
from ipu_tf.machine.system import IPUS_PER_BOARD

SERVERS = system("dss8440x2")
POD256 = dataclasses.replace(system("bow-pod256"), phased_collectives=True)


def small(ipus, domain):
    """Two servers or more, of a few cards each."""
    return dataclasses.replace(
        SERVERS, ipus=ipus, ipus_per_link_domain=domain, ipus_per_machine=domain
    )


class Machine:
    """Runs all-gathers send by send: who holds which shares, and how long each link is busy."""

    def __init__(self, machine):
        self.machine = machine
        self.held = [{ipu} for ipu in range(machine.ipus)]
        self.seconds = 0.0

    def _parts(self, source, destination):
        """Returns the parts of the way that a send keeps busy, each with its bytes per second."""
        timing, domain = self.machine.links, self.machine.ipus_per_link_domain
        link = timing.link_bytes_per_second * timing.efficiency
        if source // domain != destination // domain:
            port = timing.gateway_ipu_bytes_per_second * timing.efficiency
            server = source // self.machine.ipus_per_machine
            line = timing.gateway_bytes_per_second * timing.efficiency
            return {("port", source): port, ("line", server): line}
        first, last = source // IPUS_PER_BOARD, destination // IPUS_PER_BOARD
        way = 1 if first < last else -1
        rail = source % IPUS_PER_BOARD
        parts = {
            ("rail", rail, board, way): timing.rail_links * link
            for board in range(first, last, way)
        }
        if first == last:
            parts["board", source] = timing.board_links * link
        return parts

    def superstep(self, sends, share_bytes, synced):
        """Makes sends of (source, destination, shares) at the same time, after a sync."""
        busy, rate = defaultdict(float), {}
        for source, destination, shares in sends:
            assert shares <= self.held[source], "an IPU sends what it has"
            for part, part_rate in self._parts(source, destination).items():
                busy[part] += len(shares) * share_bytes
                rate[part] = part_rate
        slowest = 0.0
        for source, destination, shares in sends:
            self.held[destination] |= shares
            way = links.route(self.machine, source, destination)
            message = (2 * way.hops - 1) * self.machine.links.message_seconds
            streamed = max(busy[part] / rate[part] for part in self._parts(source, destination))
            latency = links.latency_seconds(self.machine, way)
            slowest = max(slowest, latency + max(message, streamed))
        synced_cycles = sync.cross_ipu_cycles(self.machine, synced)
        self.seconds += slowest + self.machine.target.seconds(synced_cycles)

    def gather(self, rings, share_bytes, *, both_ways, synced):
        """Gathers in rings of IPUs, all at once: one way round, or both to meet half-way."""
        size = len(rings[0])
        begin = [set(shares) for shares in self.held]
        for step in range(size // 2 if both_ways else size - 1):
            sends = []
            for ring in rings:
                for place, ipu in enumerate(ring):
                    behind, ahead = ring[(place - step) % size], ring[(place + step) % size]
                    sends.append((ipu, ring[(place + 1) % size], begin[behind]))
                    if both_ways and step < size // 2 - 1:
                        sends.append((ipu, ring[place - 1], begin[ahead]))
            self.superstep(sends, share_bytes, synced)


def up_and_down(ipus):
    return [*ipus[::2], *reversed(ipus[1::2])]


@pytest.mark.parametrize(("ipus", "domain"), [(4, 4), (8, 8), (8, 4), (16, 8), (16, 4)])
@pytest.mark.parametrize("tensor_bytes", [64, 51e6])
def test_an_all_gather_takes_the_time_of_its_sends(ipus, domain, tensor_bytes):
    machine = small(ipus, domain)
    reference = Machine(machine)
    if ipus > domain:
        across = [up_and_down(range(first, ipus, domain)) for first in range(domain)]
        reference.gather(across, tensor_bytes / ipus, both_ways=False, synced=ipus)
    within = [up_and_down(range(first, first + domain)) for first in range(0, ipus, domain)]
    reference.gather(within, tensor_bytes / ipus, both_ways=True, synced=domain)
    assert reference.held == [set(range(ipus))] * ipus
    found = links.all_gather_seconds(machine, ipus, tensor_bytes)
    assert found == pytest.approx(reference.seconds, rel=1e-9)
    assert links.all_reduce_seconds(machine, ipus, tensor_bytes) == 2 * found


@pytest.mark.parametrize("replica_ipus", [1, 2, 4, 8])
@pytest.mark.parametrize("base", ["gc2", POD256])
def test_more_replicas_and_more_bytes_take_longer(base, replica_ipus):
    most = 32 if base == "gc2" else 256
    counts = [count for count in (2, 4, 8, 16, 32, 64, 128, 256) if count * replica_ipus <= most]
    for tensor_bytes in (4, 4096, 51e6):
        times = [
            links.all_reduce_seconds(
                system_of(base, count * replica_ipus),
                count,
                tensor_bytes,
                replica_ipus=replica_ipus,
            )
            for count in counts
        ]
        assert times == sorted(set(times))
    for count in counts:
        machine = system_of(base, count * replica_ipus)
        # Links take as long for one word as for some: not strictly, below a few of them.
        few, many = (
            [
                links.all_reduce_seconds(machine, count, size, replica_ipus=replica_ipus)
                for size in sizes
            ]
            for sizes in ((0, 1, 64, 4096), (1e5, 1e6, 1e7, 1e9))
        )
        assert few == sorted(few)
        assert [few[-1], *many] == sorted({few[-1], *many})


def test_two_servers_send_each_sum_over_ethernet_once():
    """A server sends half of the tensor, then half of the sums, over its line of 100 Gb/s."""
    slow = dataclasses.replace(SERVERS.links, gateway_bytes_per_second=1e6)
    servers = dataclasses.replace(SERVERS, links=slow)
    expected = 51e6 / (1e6 * SERVERS.links.efficiency)
    assert links.all_reduce_seconds(servers, 32, 51e6) == pytest.approx(expected, rel=1e-3)
    one_ring = dataclasses.replace(SERVERS, phased_collectives=False)
    assert links.all_reduce_seconds(SERVERS, 32, 51e6) < links.all_reduce_seconds(
        one_ring, 32, 51e6
    )


def test_replicas_that_fill_the_rails_or_a_server_keep_their_ring():
    one_ring = dataclasses.replace(SERVERS, phased_collectives=False)
    for count, replica_ipus in ((8, 2), (4, 4), (2, 8), (2, 16), (2, 1)):
        found = links.all_reduce_seconds(SERVERS, count, 1e6, replica_ipus=replica_ipus)
        assert found == links.all_reduce_seconds(one_ring, count, 1e6, replica_ipus=replica_ipus)


def test_phases_take_domains_of_a_power_of_two():
    with pytest.raises(
        ValueError, match=r"'dss8440x2' has phased collectives.*a power of two of IPUs.*=12"
    ):
        dataclasses.replace(SERVERS, ipus_per_link_domain=12)
