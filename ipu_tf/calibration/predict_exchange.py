"""Predicts exchanges: patterns on a chip, and the same across IPU-Links.

Times include the sync in front of the exchange, as the measurements do unless they say otherwise.
"""

from __future__ import annotations

from ipu_tf.calibration.measurement_units import parse_unit
from ipu_tf.calibration.outcome import PredictionOutcome
from ipu_tf.calibration.params import says, whole
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.calibration.routes import route_of
from ipu_tf.machine import exchange, links, sync
from ipu_tf.machine.cost import Count
from ipu_tf.machine.system import system_of
from ipu_tf.machine.target import Target

_WORD_BYTES = 4
LARGE_MESSAGE_BYTES = 100 * 1024
"""Message size if a bandwidth's record gives none: the largest that fits twice in a GC2's tile,
which the source calls "sufficiently large" (CIT 4.2.2)."""


def point_to_point(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts messages between pairs of tiles: concurrent random ones, or one over a given way."""
    if says(record, "per island", "island away", "every island", "island step"):
        return PredictionOutcome(seconds=target.seconds(target.exchange.island_cycles))
    message_bytes = _message_bytes(record)
    transfers = whole(record, "transfers", "pairs", "tiles", default=1)
    total_bytes = message_bytes * transfers
    way = _named_way(record, target)
    if way is not None:
        words = -(-message_bytes // target.exchange_bytes_per_cycle)
        total_cycles = (
            way + words - 1 + (0 if says(record, "sync excluded") else target.sync_cycles)
        )
        return PredictionOutcome(seconds=target.seconds(total_cycles), bytes=total_bytes)
    cycles = int(exchange.point_to_point_cycles(message_bytes, target, transfers=transfers))
    if record.n_ipus > 1:
        return _across(record, target, cycles, total_bytes, messages=transfers)
    if says(record, "sync excluded"):
        return PredictionOutcome(seconds=target.seconds(cycles), bytes=total_bytes)
    return _on_chip(cycles, total_bytes, target)


def broadcast(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts one tile sending the same message to many, on its own IPU or on others.

    Tiles of other IPUs listen to the link, all at once; those of the own IPU come before them.
    """
    tiles = whole(record, "dest_tiles", "destination_tiles", "tiles")
    message_bytes = _message_bytes(record)
    total_bytes = message_bytes * tiles
    if record.n_ipus == 1:
        return _on_chip(
            exchange.broadcast_cycles(message_bytes, tiles, target), total_bytes, target
        )
    start = exchange.broadcast_cycles(_WORD_BYTES, min(tiles, target.tiles), target)
    own_cycles = exchange.broadcast_cycles(message_bytes, target.tiles, target) - start
    if tiles > target.tiles:
        start += own_cycles
    return _across(record, target, start, total_bytes, sent_bytes=message_bytes)


def gather(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts one tile receiving a message from each of many, on its own IPU or on another."""
    tiles = whole(record, "source_tiles", "tiles")
    message_bytes = _message_bytes(record)
    total_bytes = message_bytes * tiles
    cycles = exchange.gather_cycles(message_bytes, tiles, target)
    if record.n_ipus == 1:
        return _on_chip(cycles, total_bytes, target)
    return _across(record, target, cycles, total_bytes, messages=tiles)


def scatter(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts one tile sending a message of its own to each of many, here or on another IPU."""
    tiles = whole(record, "dest_tiles", "destination_tiles", "tiles")
    message_bytes = _message_bytes(record)
    total_bytes = message_bytes * tiles
    if record.n_ipus == 1:
        return _on_chip(exchange.scatter_cycles(message_bytes, tiles, target), total_bytes, target)
    start = exchange.point_to_point_cycles(_WORD_BYTES, target)
    return _across(record, target, start, total_bytes, sent_bytes=total_bytes)


def all_to_all(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts each of some tiles sending a message of its own to each other."""
    tiles = whole(record, "tiles", "total_tiles")
    message_bytes = _message_bytes(record)
    cycles = exchange.all_to_all_cycles(message_bytes, tiles, target)
    return _on_chip(cycles, message_bytes * tiles * tiles, target)


def _on_chip(cycles: Count, total_bytes: int, target: Target) -> PredictionOutcome:
    total_cycles = int(cycles) + sync.on_chip_cycles(target)
    return PredictionOutcome(seconds=target.seconds(total_cycles), bytes=total_bytes)


def _across(
    record: MeasuredPoint,
    target: Target,
    chip_cycles: Count,
    total_bytes: int,
    *,
    messages: int = 1,
    sent_bytes: int = 0,
) -> PredictionOutcome:
    """Adds the way over IPU-Links.

    Args:
        record: The record.
        target: The chip.
        chip_cycles: Cycles on the chips.
        total_bytes: Bytes that arrive, on all tiles together.
        messages: Messages that cross, each from a tile of its own.
        sent_bytes: Bytes that leave one tile, which packs them for the link.
    """
    system = system_of(target.chip, record.n_ipus)
    way = route_of(record)
    crossing = sent_bytes or total_bytes
    seconds_of_bytes = sent_bytes / links.tile_bytes_per_second(system)
    over_links = links.transfer_seconds(system, way, crossing, messages)
    over_links = max(over_links, links.latency_seconds(system, way) + seconds_of_bytes)
    cycles = int(chip_cycles) + sync.on_chip_cycles(target)
    return PredictionOutcome(seconds=target.seconds(cycles) + over_links, bytes=total_bytes)


def _message_bytes(record: MeasuredPoint) -> int:
    is_rate = parse_unit(record.unit).dimension == "bytes_per_second"
    default = LARGE_MESSAGE_BYTES if is_rate else _WORD_BYTES
    return whole(record, "bytes_each", "bytes", "message_bytes", "size_bytes", default=default)


def _named_way(record: MeasuredPoint, target: Target) -> float | None:
    """Returns the cycles of a way that the record describes by its place on the chip."""
    timing = target.exchange
    if says(record, "one column", "within a column", "same column", "intracolumn"):
        islands = timing.islands_per_column - 1
        far = islands * timing.island_cycles if says(record, "max", "slowest", "farthest") else 0
        return timing.nearest_cycles + far
    if says(record, "slowest", "farthest", "crosscolumn", "across columns"):
        return timing.farthest_cycles
    return None
