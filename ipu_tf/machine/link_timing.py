"""Rates and latencies of IPU-Links, gateways, hosts and streaming memory.

Sources: CIT (Jia et al., arXiv 1912.03413, measured on a server of eight C2 cards), PL (poplibs'
test model of multi-IPU targets), DECK (vendor presentations of M2000, Bow-2000 and Pods), BLOCK
(block diagram of an IPU-M2000 in the vendor's BMC user guide), PATENT (the vendor's US 11,119,952
and US 11,886,362, of gateways).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ipu_tf.machine.timing_check import check_figures

_GATEWAY_PORT_BYTES_PER_SECOND = 15.75e9
"""Between an IPU and the gateway of its machine: PCIe Gen4 x8, one direction (BLOCK)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTiming:
    """Links between IPUs.

    Attributes:
        link_bytes_per_second: Rate of one link in one direction.
        efficiency: Share of it for data; packets take the rest. Modelled: as much of gateway links.
        board_links: Links between the two IPUs of a board that carry their own traffic.
        rail_links: Links from an IPU to its neighbour on the next board.
        board_hop_seconds: Latency between the two IPUs of a board, the way on chip not included.
        rail_hop_seconds: The same to the neighbour on the next board.
        further_hop_seconds: More for every further board.
        turn_seconds: More where a route takes both a rail and a board's own links.
        message_seconds: Time that a link spends on a message, however short.
        gateway_bytes_per_second: Rate of all links of a machine to another rack, in one direction;
            0 for none.
        gateway_ipu_bytes_per_second: Rate between an IPU and the gateway of its machine, in one
            direction.
        gateway_hop_seconds: Latency of such links.
    """

    link_bytes_per_second: float
    efficiency: float
    board_links: int
    rail_links: int
    board_hop_seconds: float = 0.512e-6  # CIT table 4.1: 0.633 us less 0.121 us on chip
    rail_hop_seconds: float = 0.403e-6  # CIT table 4.1: 0.524 us less 0.121 us on chip
    further_hop_seconds: float = 0.16e-6  # CIT 2.1: on average, 0.145 to 0.174
    turn_seconds: float = 0.255e-6  # CIT table 4.1: 0.779 us less 0.524 us
    message_seconds: float = 1.554e-9  # fitted: CIT table 4.3, 1,216 messages in 2.521 us
    gateway_bytes_per_second: float = 0.0
    gateway_ipu_bytes_per_second: float = _GATEWAY_PORT_BYTES_PER_SECOND
    gateway_hop_seconds: float = 2e-6  # modelled: nothing published

    def __post_init__(self) -> None:
        check_figures(self, may_be_zero=("gateway_bytes_per_second",))
        if self.efficiency > 1:
            raise ValueError(
                f"LinkTiming.efficiency must be at most 1. Received: {self.efficiency!r}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTiming:
    """The way between host memory and tiles.

    Attributes:
        ipu_bytes_per_second: Rate into one IPU.
        group_bytes_per_second: Rate into the IPUs that share a connection.
        group_ipus: IPUs that share a connection.
        gateway_ipu_bytes_per_second: Rate between an IPU and the gateway of its machine, whose
            memory the host fills ahead; 0 if IPUs reach the host's memory themselves.
        latency_seconds: From the start of a transfer to its first byte, both synchronisations
            included.
    """

    ipu_bytes_per_second: float
    group_bytes_per_second: float
    group_ipus: int
    gateway_ipu_bytes_per_second: float = 0.0
    latency_seconds: float = 8.81e-6  # CIT table 4.19

    def __post_init__(self) -> None:
        check_figures(self, may_be_zero=("gateway_ipu_bytes_per_second",))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingTiming:
    """Memory beside the IPUs of a machine.

    Attributes:
        machine_bytes: Capacity of one machine; 0 for none.
        ipu_bytes_per_second: Rate into one IPU, one direction.
        latency_seconds: From the start of a transfer to its first byte.
    """

    machine_bytes: int
    ipu_bytes_per_second: float
    latency_seconds: float

    def __post_init__(self) -> None:
        check_figures(self, may_be_zero=("machine_bytes",))


C2_LINKS = LinkTiming(
    link_bytes_per_second=32e9,  # CIT 2.1: 64 GB/s in both directions together
    efficiency=0.8625,  # fitted: CIT table 4.6, 55.0 and 27.72 GB/s over 2 links and 1
    board_links=2,  # CIT 2.1: three links, one of them for traffic that passes through
    rail_links=1,  # CIT 2.1
)
C2_SERVER_LINKS = dataclasses.replace(
    C2_LINKS,
    gateway_bytes_per_second=12.5e9,  # modelled: a line of 100 Gb/s between servers, over the hosts
    gateway_ipu_bytes_per_second=5.86e9,  # CIT table 4.20, PCIe Gen3 x8
    gateway_hop_seconds=2 * 8.81e-6,  # CIT table 4.19: to a host and from one; bound, no line
)
POD_LINKS = LinkTiming(
    link_bytes_per_second=16e9,  # DECK: 10 links of 16 GB/s a direction, 320 GB/s in all
    efficiency=0.85,  # PL
    board_links=4,  # PL: within a pair
    rail_links=2,  # PL: across, up, down
    gateway_bytes_per_second=25e9,  # DECK: two links of 100 Gb/s a machine
)
C2_HOST = HostTiming(
    ipu_bytes_per_second=5.86e9,  # CIT table 4.20, PCIe Gen3 x8
    group_bytes_per_second=13.78e9,  # CIT table 4.20, four IPUs behind 16 lanes
    group_ipus=4,
)
POD_HOST = HostTiming(
    ipu_bytes_per_second=12.5e9,  # bound: the machine's 100 GbE (DECK)
    group_bytes_per_second=12.5e9,  # the same line for all four
    group_ipus=4,
    gateway_ipu_bytes_per_second=_GATEWAY_PORT_BYTES_PER_SECOND,  # filled ahead: PATENT
)
C600_HOST = HostTiming(
    ipu_bytes_per_second=31.5e9,  # bound: PCIe Gen4 x16, one direction
    group_bytes_per_second=31.5e9,
    group_ipus=1,
)
NO_STREAMING = StreamingTiming(machine_bytes=0, ipu_bytes_per_second=1.0, latency_seconds=1.0)
POD_STREAMING = StreamingTiming(
    machine_bytes=256 * 10**9,  # DECK: up to 256 GB a machine
    ipu_bytes_per_second=_GATEWAY_PORT_BYTES_PER_SECOND,  # bound: no rate of the memory published
    latency_seconds=2e-6,  # modelled: nothing published
)
