"""Predicts traffic between IPUs, and between host and IPUs."""

from __future__ import annotations

from ipu_tf.calibration.measurement_units import parse_unit
from ipu_tf.calibration.outcome import PredictionOutcome
from ipu_tf.calibration.params import says, whole
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.calibration.routes import route_of
from ipu_tf.machine import exchange, links, sync
from ipu_tf.machine import host as host_transfers
from ipu_tf.machine.system import System, system_of
from ipu_tf.machine.target import Target

_HOST_BYTES_A_TILE = 40_000
"""Bytes that each tile receives if a bandwidth's record does not say (CIT table 4.20: 40 KB)."""

_DIRECTIONS = ("bidir", "bidirectional")


def link(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts messages between tiles of different IPUs: a time, or the rate of large ones."""
    system = system_of(target.chip, max(record.n_ipus, 2))
    both_ways = 2 if says(record, *_DIRECTIONS) else 1
    transfers = whole(record, "transfers", default=1)
    if (
        parse_unit(record.unit).dimension == "bytes_per_second"
        and "bytes_each" not in record.params
    ):
        return PredictionOutcome(bytes_per_second=_large_rate(record, system, transfers, both_ways))
    message_bytes = whole(record, "bytes_each", "bytes", default=4)
    total_bytes = transfers * message_bytes
    cycles = int(exchange.point_to_point_cycles(message_bytes, target)) + sync.on_chip_cycles(
        target
    )
    if record.n_ipus > 2 and says(record, "random", "entire system", "system wide"):
        over_links = links.random_traffic_seconds(system, record.n_ipus, message_bytes, transfers)
        return PredictionOutcome(seconds=target.seconds(cycles) + over_links, bytes=total_bytes)
    one_way = -(-transfers // both_ways)
    seconds = target.seconds(cycles) + links.transfer_seconds(
        system, route_of(record), total_bytes / both_ways, one_way
    )
    return PredictionOutcome(seconds=seconds, bytes=total_bytes)


def host(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts transfers from the host to some tiles of each IPU."""
    tiles = whole(record, "tiles", "dest_tiles", default=record.n_ipus)
    is_rate = parse_unit(record.unit).dimension == "bytes_per_second"
    each = whole(
        record,
        "bytes_each",
        "bytes",
        "bytes_per_tile",
        default=_HOST_BYTES_A_TILE if is_rate else 4,
    )
    system = system_of(target.chip, record.n_ipus)
    ipus = 1 << (record.n_ipus - 1).bit_length()
    seconds = host_transfers.transfer_seconds(system, each * tiles, ipus)
    return PredictionOutcome(seconds=seconds, bytes=each * tiles)


def _large_rate(record: MeasuredPoint, system: System, transfers: int, both_ways: int) -> float:
    """Returns the rate of large messages: of the links, or of the tiles if those are too few."""
    of_tiles = transfers * links.tile_bytes_per_second(system)
    if record.n_ipus > 2:
        # Traffic between all of them is bound by the two rails, both ways, whatever their length.
        rail = links.bytes_per_second(system, links.Route(rail_hops=1))
        return min(of_tiles, 4 * rail)
    return min(of_tiles, both_ways * links.bytes_per_second(system, route_of(record)))
