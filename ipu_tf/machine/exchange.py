"""Cycles of exchange phases: tiles send to tiles, all at once, by a schedule made beforehand.

A phase takes a start (distances and start-up, `ExchangeTiming`) and then one word a cycle on the
busiest tile. Excludes the sync in front of it (`sync.py`). Every function takes integers or NumPy
integer arrays (one entry per candidate) and returns cycles of the same kind: 0 if nothing moves.

Models a schedule without conflicts, as a compiler can make one since receivers take one word a
cycle and the exchange itself is never short. Does not model that a bad order of tiles delays
senders (1.57 times, measured on a C600), nor exchanges between IPUs (`links.py`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.cost import Count, Counts, Measure, ceil_div
from ipu_tf.machine.exchange_timing import ExchangeTiming
from ipu_tf.machine.target import Target

_WORD_BYTES = 4
_SEND_CODE_BYTES = 8
_SEND_WORDS = 64
_MORE_CODE_BYTES = 4
"""Code of a message that a tile sends: an address and up to 64 words in one instruction, a word of
code for each further 64 (send, sendoff: ipu-stack, exchange footprint; within 18% of encoded
exchanges)."""

_RECEIVE_CODE_BYTES = 8
"""Code of a message that a tile receives: source and address (sendpicp, two words, ipu-stack)."""

_PHASE_CODE_BYTES = 8
"""Entry and return of the code of a tile in a phase (ipu-stack, exchange footprint)."""


def phase_cycles(received_bytes: Count, target: Target, *, sent_bytes: Count = 0) -> Count:
    """Returns the cycles of a phase of any pattern in which tiles both send and receive.

    Args:
        received_bytes: The most bytes that one tile receives.
        target: The machine.
        sent_bytes: The most bytes that one tile sends, each once however many tiles listen.
    """
    words = np.maximum(_words(received_bytes, target), _words(sent_bytes, target))
    return _where_any(words, target.exchange_fixed_cycles + words)


def paired_phase_cycles(
    shared_bytes: Count, own_bytes: Count, target: Target, *, sent_bytes: Count = 0
) -> Count:
    """Returns the cycles of a phase in which tiles receive part of their data pair by pair.

    Args:
        shared_bytes: Received bytes that both tiles of every pair need.
        own_bytes: Received bytes that only one tile of a pair needs.
        target: The machine.
        sent_bytes: The most bytes that one tile sends.
    """
    shared = ceil_div(shared_bytes, target.paired_exchange_bytes_per_cycle)
    words = np.maximum(shared + _words(own_bytes, target), _words(sent_bytes, target))
    return _where_any(words, target.exchange_fixed_cycles + words)


def point_to_point_cycles(message_bytes: Count, target: Target, *, transfers: Count = 1) -> Count:
    """Returns the cycles in which random tiles send one message each to other random tiles.

    The slowest of the transfers counts: the more there are, the further it is likely to go.

    Args:
        message_bytes: Bytes of each message.
        target: The machine.
        transfers: Number of concurrent messages, at most one to and one from each tile.
    """
    turnaround = np.where(np.asarray(transfers) > 1, target.exchange.turnaround_cycles, 0)
    start = turnaround + expected_farthest_cycles(transfers, target)
    words = _words(message_bytes, target)
    return _where_any(words * (np.asarray(transfers) > 0), _rounded(start) + words - 1)


def gather_cycles(message_bytes: Count, sources: Count, target: Target) -> Count:
    """Returns the cycles in which one tile receives a message from each of `sources` tiles.

    Far senders start early, so their distance is hidden behind the words of near ones.
    """
    words = _words(message_bytes, target) * sources
    timing = target.exchange
    last_word_cycles = timing.nearest_cycles - timing.head_start_cycles + words
    return _where_any(words, _rounded(np.maximum(timing.nearest_cycles, last_word_cycles)))


def scatter_cycles(message_bytes: Count, destinations: Count, target: Target) -> Count:
    """Returns the cycles in which one tile sends a message of its own to each other tile."""
    words = _words(message_bytes, target)
    timing = target.exchange
    single = np.where(words == 1, timing.single_word_cycles, 0)
    sent_words = words * destinations
    return _where_any(sent_words, _rounded(timing.scatter_start_cycles + single + sent_words))


def broadcast_cycles(message_bytes: Count, destinations: Count, target: Target) -> Count:
    """Returns the cycles in which one tile sends one message to all of the first `destinations`.

    From four receivers on the tiles of a pair listen together, at twice the rate.
    """
    timing = target.exchange
    pairs = np.asarray(destinations) >= timing.paired_from
    rate = np.where(pairs, target.paired_exchange_bytes_per_cycle, target.exchange_bytes_per_cycle)
    words = ceil_div(np.asarray(message_bytes), rate)
    columns = ceil_div(np.asarray(destinations), timing.tiles_per_column)
    span = np.clip(columns - 1, 0, timing.columns_per_side - 1) * timing.column_cycles
    far_side = np.where(columns > timing.columns_per_side, timing.far_side_cycles, 0)
    wide = np.asarray(destinations) > timing.fan_out_tiles
    fan_out = np.where(wide, timing.fan_out_cycles + span + far_side, 0)
    cycles = _rounded(timing.nearest_cycles + fan_out) + words - 1
    return _where_any(words * (np.asarray(destinations) > 0), cycles)


def all_to_all_cycles(message_bytes: Count, tiles: Count, target: Target) -> Count:
    """Returns the cycles in which each of `tiles` tiles sends a message of its own to each other.

    The message to itself takes its turn as well, as in the measurements.
    """
    timing = target.exchange
    words = _words(message_bytes, target) * tiles
    start = timing.turnaround_cycles + expected_farthest_cycles(tiles, target)
    return _where_any(words * (np.asarray(tiles) > 1), _rounded(start) + words - 1)


def expected_farthest_cycles(transfers: Count, target: Target) -> NDArray[np.float64]:
    """Returns the way of the farthest of `transfers` words between random tiles, in cycles.

    Modelled: a way is the nearest one, plus the island of the receiver, plus the columns between
    sender and receiver, all drawn evenly.
    """
    ways, up_to = _ways(target.exchange)
    count = np.asarray(transfers, dtype=np.float64)[..., np.newaxis]
    chances = np.diff(up_to**count, prepend=0.0, axis=-1)
    return np.asarray(np.sum(chances * ways, axis=-1))


def exchange_code_bytes(*, received: Count, sent: Count, sent_bytes: Count = 0) -> Count:
    """Returns the bytes of exchange code of a tile in a phase.

    A message is a run of words that goes from one tile to all that listen.

    Args:
        received: Messages that it receives.
        sent: Messages that it sends.
        sent_bytes: Bytes of those together.
    """
    more_sends = np.maximum(0, ceil_div(sent_bytes, _SEND_WORDS * _WORD_BYTES) - sent)
    code = _SEND_CODE_BYTES * sent + _RECEIVE_CODE_BYTES * received + _MORE_CODE_BYTES * more_sends
    return _where_any(sent + received, _PHASE_CODE_BYTES + code)


@lru_cache
def _ways(timing: ExchangeTiming) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the ways between tiles, ascending, in cycles, and how likely none is farther."""
    islands = np.arange(timing.islands_per_column) * timing.island_cycles
    columns = np.arange(timing.columns_per_side)
    apart = np.abs(columns[:, np.newaxis] - columns) * timing.column_cycles
    ways = timing.nearest_cycles + islands[:, np.newaxis] + apart.ravel()
    lengths, counts = np.unique(ways, return_counts=True)
    return lengths, np.cumsum(counts) / ways.size


def _words(count_bytes: Count, target: Target) -> Count:
    """Returns the cycles in which one tile receives or sends so many bytes, word by word."""
    words = ceil_div(np.asarray(count_bytes), _WORD_BYTES)
    return ceil_div(words * _WORD_BYTES, target.exchange_bytes_per_cycle)


def _rounded(cycles: Measure) -> Counts:
    """Returns whole cycles."""
    return np.asarray(np.rint(cycles), dtype=np.int64)


def _where_any(words: Count, cycles: Count) -> Count:
    """Returns the cycles where anything moves, else none; a plain int for plain ints."""
    spent_cycles = np.where(np.asarray(words) > 0, cycles, 0)
    return int(spent_cycles) if spent_cycles.ndim == 0 else spent_cycles
