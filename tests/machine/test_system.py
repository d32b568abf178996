import dataclasses
import math

import pytest

from ipu_tf.machine import CHIPS, SYSTEMS, host, links, streaming, sync, system, system_of
from ipu_tf.machine.exchange_timing import ExchangeTiming
from ipu_tf.machine.link_timing import C2_HOST, POD_LINKS, LinkTiming

C2 = system("dss8440")
POD64 = system("bow-pod64")
POD256 = system("bow-pod256")


@pytest.mark.parametrize(
    ("name", "chip", "ipus"),
    [
        ("c2", "gc2", 2),
        ("dss8440", "gc2", 16),
        ("dss8440x2", "gc2", 32),
        ("m2000", "gc200", 4),
        ("pod4", "gc200", 4),
        ("bow-2000", "bow", 4),
        ("pod16", "gc200", 16),
        ("bow-pod256", "bow", 256),
        ("c600", "c600", 1),
    ],
)
def test_systems_have_their_ipus(name, chip, ipus):
    assert (system(name).target.chip, system(name).ipus) == (chip, ipus)


def test_unknown_system_names_the_known_ones():
    with pytest.raises(ValueError, match=r"c2, dss8440, dss8440x2, m2000.*Received: 'pod17'"):
        system("pod17")


def test_the_smallest_system_that_is_large_enough():
    assert system_of("bow").name == "bow-2000"
    assert system_of("bow", 5).name == "bow-pod16"
    assert system_of("gc2", 3).name == "dss8440"


@pytest.mark.parametrize(
    ("chip", "ipus", "message"),
    [
        ("gc3", 1, r"Unknown chip.*'gc3'"),
        ("gc2", 33, r"No system has 33 gc2 IPUs.*c2 \(2\), dss8440 \(16\), dss8440x2 \(32\)"),
        ("c600", 2, r"No system has 2 c600 IPUs.*c600 \(1\)"),
        ("bow", 0, r"`ipus` must be a positive int\. Received: 0"),
    ],
)
def test_impossible_systems(chip, ipus, message):
    with pytest.raises(ValueError, match=message):
        system_of(chip, ipus)


def test_a_target_takes_the_place_of_the_chip_whose_name_it_has():
    mine = dataclasses.replace(CHIPS["gc200"], tiles=3000)
    found = system_of(mine, 5)
    assert found == dataclasses.replace(SYSTEMS["pod16"], target=mine)


def test_a_system_is_its_own():
    own = dataclasses.replace(C2, name="own", target=dataclasses.replace(C2.target, chip="mine"))
    assert system_of(own, 16) == own
    with pytest.raises(ValueError, match=r"No system has 17 mine IPUs.*own \(16\)"):
        system_of(own, 17)
    with pytest.raises(ValueError, match=r"No known system has 'mine' IPUs.*Give a System"):
        system_of(own.target)


@pytest.mark.parametrize(
    ("ipus", "message"), [(3, "powers of two.*Received: 3"), (32, "has 16 IPUs.*Received: 32")]
)
def test_ipus_are_used_in_powers_of_two(ipus, message):
    with pytest.raises(ValueError, match=message):
        C2.check_ipus(ipus)


def test_several_ipus_need_links():
    with pytest.raises(ValueError, match=r"'c600' has 2 IPUs and no links"):
        dataclasses.replace(SYSTEMS["c600"], ipus=2)
    with pytest.raises(ValueError, match=r"System\.ipus must be a positive int\. Received: 0"):
        dataclasses.replace(C2, ipus=0)


def test_several_link_domains_need_gateways():
    with pytest.raises(ValueError, match=r"has 16 IPUs in link domains of 8 and no gateways.*=8"):
        dataclasses.replace(C2, ipus_per_link_domain=8)
    dataclasses.replace(C2, ipus_per_link_domain=8, links=POD_LINKS)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("name", 16, r"System\.name must be a str\. Received: 16"),
        ("phased_collectives", 1, r"System\.phased_collectives must be a bool\. Received: 1"),
        ("ring", 1, r"System\.ring must be a bool\. Received: 1"),
        ("target", "gc2", r"System\.target must be a Target\. Received: 'gc2'"),
        ("host", None, r"System\.host must be a HostTiming\. Received: None"),
        ("streaming", 0, r"System\.streaming must be a StreamingTiming\. Received: 0"),
        ("links", 32e9, r"System\.links must be a LinkTiming, or None\. Received: 32"),
    ],
)
def test_the_parts_of_a_system_are_checked(part, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(C2, **{part: value})


def test_timings_are_checked():
    with pytest.raises(ValueError, match=r"LinkTiming\.efficiency must be at most 1.*1\.5"):
        dataclasses.replace(POD_LINKS, efficiency=1.5)
    with pytest.raises(ValueError, match=r"HostTiming\.group_ipus must be positive\. Received: 0"):
        dataclasses.replace(C2_HOST, group_ipus=0)
    with pytest.raises(ValueError, match=r"LinkTiming\.efficiency must be positive.*nan"):
        dataclasses.replace(POD_LINKS, efficiency=math.nan)
    with pytest.raises(ValueError, match=r"ExchangeTiming\.island_cycles must be zero or .*nan"):
        ExchangeTiming(island_cycles=math.nan)
    assert isinstance(dataclasses.replace(POD_LINKS, gateway_bytes_per_second=0.0), LinkTiming)


def test_routes_follow_the_ladder():
    assert links.route(C2, 0, 1) == links.Route(crosses_board=True)
    assert links.route(C2, 0, 6) == links.Route(rail_hops=3)
    assert links.route(C2, 0, 15) == links.Route(rail_hops=7, crosses_board=True)
    assert links.route(POD64, 0, 62) == links.Route(rail_hops=1)  # closed to a ring
    assert links.route(POD256, 0, 64) == links.Route(gateway_hops=1)


def test_a_route_ends_at_ipus_of_the_system():
    with pytest.raises(ValueError, match=r"dss8440 has IPUs 0 to 15\. Received: 16"):
        links.route(C2, 0, 16)


def test_a_system_of_one_ipu_has_no_links():
    with pytest.raises(ValueError, match=r"c600 has no IPU-Links"):
        links.latency_seconds(system("c600"), links.Route(crosses_board=True))


def test_gateways_are_for_racks():
    with pytest.raises(ValueError, match=r"dss8440 has no gateway links"):
        links.bytes_per_second(C2, links.Route(gateway_hops=1))
    # Two links of 100 Gb/s, less the packets.
    rate = links.bytes_per_second(POD256, links.Route(gateway_hops=1), senders=2)
    assert rate == pytest.approx(25e9 * 0.85)


def test_an_ipu_reaches_the_gateway_over_its_own_connection():
    alone = links.bytes_per_second(POD256, links.Route(gateway_hops=1))
    assert alone == pytest.approx(15.75e9 * 0.85)
    # The one ring of replicas of an IPU waits for it; those of two IPUs fill the gateway links.
    assert links.all_reduce_seconds(POD256, 256, 1e9) == pytest.approx(2e9 / alone, rel=0.01)
    shared = links.all_reduce_seconds(POD256, 128, 1e9, replica_ipus=2)
    assert shared == pytest.approx(4e9 / (25e9 * 0.85), rel=0.01)


def test_replicas_of_two_machines_take_both_gateways():
    four, eight = (
        links.all_reduce_seconds(POD256, 256 // ipus, 1e9, replica_ipus=ipus) for ipus in (4, 8)
    )
    assert eight == pytest.approx(four, rel=0.02)


def test_rates_by_route():
    assert links.bytes_per_second(C2, links.Route(crosses_board=True)) == pytest.approx(55.2e9)
    assert links.bytes_per_second(C2, links.Route(rail_hops=3)) == pytest.approx(27.6e9)
    assert links.bytes_per_second(C2, links.Route()) == float("inf")


def test_latency_grows_with_every_hop():
    ways = [links.Route(rail_hops=hops) for hops in range(1, 8)]
    latencies = [links.latency_seconds(C2, way) for way in ways]
    assert latencies == sorted(latencies)
    assert latencies[-1] - latencies[0] == pytest.approx(6 * 0.16e-6)


def test_many_messages_take_longer_than_their_bytes():
    way = links.Route(crosses_board=True)
    one, many = (links.transfer_seconds(C2, way, 4096, messages) for messages in (1, 1024))
    assert many > 2 * one
    assert links.transfer_seconds(C2, way, 1e9, 1) == pytest.approx(1e9 / 55.2e9, rel=1e-3)


def test_an_all_reduce_is_a_scatter_and_a_gather():
    both = links.all_reduce_seconds(POD64, 16, 1e6)
    assert both == 2 * links.all_gather_seconds(POD64, 16, 1e6)
    assert links.all_reduce_seconds(POD64, 1, 1e6) == 0
    assert links.all_reduce_seconds(POD64, 64, 1e6) > both


@pytest.mark.parametrize("chip", ["gc200", "bow"])
def test_an_all_reduce_takes_longer_on_a_larger_pod(chip):
    sizes = [4, 16, 32, 64, 128, 256]
    times = [links.all_reduce_seconds(system_of(chip, ipus), ipus, 51e6) for ipus in sizes]
    assert times == sorted(set(times))
    # Every IPU sends and receives the tensor twice, but for its own share.
    assert times[1] == pytest.approx(2 * 15 / 16 * 51e6 / 27.2e9, rel=0.02)
    # The way to the next rack has half the rate of a rail.
    assert times[-1] < 3 * times[1]


@pytest.mark.parametrize("replica_ipus", [2, 4, 8])
def test_rings_of_replicas_share_the_rails_both_ways(replica_ipus):
    sizes = [16, 32, 64, 128, 256]
    times = [
        links.all_reduce_seconds(
            system_of("bow", ipus), ipus // replica_ipus, 51e6, replica_ipus=replica_ipus
        )
        for ipus in sizes
    ]
    assert times == sorted(set(times))
    # Half of the rings go over either rail.
    share_bytes = 51e6 / (16 // replica_ipus) * replica_ipus / 2
    steps = 2 * (16 // replica_ipus - 1)
    assert times[0] == pytest.approx(steps * share_bytes / 27.2e9, rel=0.02)


def test_a_ring_within_a_rack_takes_no_gateway():
    slow = dataclasses.replace(POD_LINKS, gateway_bytes_per_second=1e6)
    racks = dataclasses.replace(POD256, links=slow)
    assert links.all_reduce_seconds(racks, 64, 51e6) == links.all_reduce_seconds(POD256, 64, 51e6)
    assert links.all_reduce_seconds(racks, 128, 51e6) > 100 * links.all_reduce_seconds(
        POD256, 128, 51e6
    )


def test_random_traffic_needs_two_boards():
    with pytest.raises(ValueError, match=r"more than 2 IPUs\. Received: 2"):
        links.random_traffic_seconds(C2, 2, 4, 100)
    few, many = (links.random_traffic_seconds(C2, ipus, 4, 1216 * ipus) for ipus in (4, 16))
    assert few < many


def test_a_sync_reaches_farther_with_more_ipus():
    on_chip, pair, rack, racks = (sync.cross_ipu_cycles(POD256, ipus) for ipus in (1, 2, 64, 256))
    assert on_chip == sync.on_chip_cycles(POD256.target) == POD256.target.sync_cycles
    assert on_chip < pair < rack < racks


def test_the_host_feeds_groups_of_ipus():
    assert host.bytes_per_second(C2, 1) == 5.86e9
    assert host.bytes_per_second(C2, 4) == 13.78e9
    assert host.bytes_per_second(C2, 16) == 4 * 13.78e9


def test_a_host_transfer_starts_with_its_latency():
    assert host.transfer_seconds(C2, 0) == 8.81e-6
    assert host.transfer_cycles(C2, 5.86e9) == round((1 + 8.81e-6) * 1.6e9)


def test_streaming_memory_belongs_to_machines():
    assert streaming.capacity_bytes(system("bow-pod16"), 16) == 4 * 256 * 10**9
    assert streaming.transfer_seconds(POD64, 15.75e9) == pytest.approx(1, rel=1e-5)
    with pytest.raises(ValueError, match=r"c2 has no streaming memory"):
        streaming.transfer_seconds(system("c2"), 1)
