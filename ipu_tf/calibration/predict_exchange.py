"""Predicts exchanges: patterns on a chip, and the same across IPU-Links.

Times include the sync in front of the exchange, as the measurements do unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from ipu_tf.calibration.outcome import Outcome
from ipu_tf.calibration.params import says, whole
from ipu_tf.calibration.records import Record
from ipu_tf.calibration.routes import route_of
from ipu_tf.calibration.units import parse_unit
from ipu_tf.machine import exchange, links, sync
from ipu_tf.machine.cost import Count
from ipu_tf.machine.system import system_of
from ipu_tf.machine.target import Target

_WORD_BYTES = 4
LARGE_MESSAGE_BYTES = 100 * 1024
"""Message where a bandwidth's record gives none: the largest that fits twice in a GC2's tile,
which is what the source calls "sufficiently large" (CIT 4.2.2)."""

_Pattern = Callable[[Count, Count, Target], Count]


def point_to_point(record: Record, target: Target) -> Outcome:
    """Predicts messages between pairs of tiles: concurrent random ones, or one over a given way."""
    if says(record, "per island", "island away", "every island", "island step"):
        return Outcome(seconds=target.seconds(target.exchange.island_cycles))
    message_bytes = _message_bytes(record)
    transfers = whole(record, "transfers", "pairs", "tiles", default=1)
    moved = message_bytes * transfers
    way = _named_way(record, target)
    if way is not None:
        words = -(-message_bytes // target.exchange_bytes_per_cycle)
        cycles = way + words - 1 + (0 if says(record, "sync excluded") else target.sync_cycles)
        return Outcome(seconds=target.seconds(cycles), bytes=moved)
    cycles = exchange.point_to_point_cycles(message_bytes, target, transfers=transfers)
    if not says(record, "sync excluded"):
        cycles += sync.on_chip_cycles(target)
    return _with_links(record, target, cycles, moved, messages=transfers)


def broadcast(record: Record, target: Target) -> Outcome:
    """Predicts one tile sending the same message to many."""
    tiles = whole(record, "dest_tiles", "destination_tiles", "tiles")
    return _collective(record, target, exchange.broadcast_cycles, tiles, sent_once=True)


def gather(record: Record, target: Target) -> Outcome:
    """Predicts one tile receiving a message from each of many."""
    tiles = whole(record, "source_tiles", "tiles")
    return _collective(record, target, exchange.gather_cycles, tiles)


def scatter(record: Record, target: Target) -> Outcome:
    """Predicts one tile sending a message of its own to each of many."""
    tiles = whole(record, "dest_tiles", "destination_tiles", "tiles")
    return _collective(record, target, exchange.scatter_cycles, tiles, sent_once=True)


def all_to_all(record: Record, target: Target) -> Outcome:
    """Predicts each of some tiles sending a message of its own to each other."""
    tiles = whole(record, "tiles", "total_tiles")
    message_bytes = _message_bytes(record)
    cycles = exchange.all_to_all_cycles(message_bytes, tiles, target)
    cycles += sync.on_chip_cycles(target)
    return Outcome(seconds=target.seconds(cycles), bytes=message_bytes * tiles * tiles)


def _collective(
    record: Record, target: Target, pattern: _Pattern, tiles: int, *, sent_once: bool = False
) -> Outcome:
    """Predicts a pattern with one tile on one side.

    `sent_once`: the messages leave one tile, which packs them for a link.
    """
    message_bytes = _message_bytes(record)
    cycles = pattern(message_bytes, tiles, target) + sync.on_chip_cycles(target)
    moved = message_bytes * tiles
    messages = 1 if sent_once else tiles
    across = message_bytes if pattern is exchange.broadcast_cycles else moved
    return _with_links(record, target, cycles, moved, messages=messages, across=across)


def _with_links(
    record: Record,
    target: Target,
    cycles: Count,
    moved: int,
    *,
    messages: int,
    across: int | None = None,
) -> Outcome:
    """Adds what crosses IPU-Links, for records of several IPUs."""
    seconds = target.seconds(int(cycles))
    if record.n_ipus > 1:
        system = system_of(record.chip, record.n_ipus)
        seconds += links.transfer_seconds(
            system, route_of(record), moved if across is None else across, messages
        )
    return Outcome(seconds=seconds, bytes=moved)


def _message_bytes(record: Record) -> int:
    is_rate = parse_unit(record.unit).dimension == "bytes_per_second"
    default = LARGE_MESSAGE_BYTES if is_rate else _WORD_BYTES
    return whole(record, "bytes_each", "bytes", "message_bytes", "size_bytes", default=default)


def _named_way(record: Record, target: Target) -> float | None:
    """Returns the cycles of a way that the record describes by its place on the chip."""
    timing = target.exchange
    if says(record, "one column", "within a column", "same column", "intracolumn"):
        islands = timing.islands_per_column - 1
        far = islands * timing.island_cycles if says(record, "max", "slowest", "farthest") else 0
        return timing.nearest_cycles + far
    if says(record, "slowest", "farthest", "crosscolumn", "across columns"):
        return timing.farthest_cycles
    return None
