"""Traces in Perfetto's format: a `Trace` of packets, for ui.perfetto.dev.

One sequence with interned names. The device is one process with a thread for each IPU, the host
another one. Numbers are those of the fields in Perfetto's `protos/perfetto/trace`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ipu_tf.profile.traces.trace_slices import TraceSlice
from ipu_tf.profile.traces.tracks import Track
from ipu_tf.profile.traces.wire import integer, message, text

_PACKET = 1

# TracePacket
_TIMESTAMP = 8
_SEQUENCE = 10
_TRACK_EVENT = 11
_INTERNED_DATA = 12
_SEQUENCE_FLAGS = 13
_TRACK_DESCRIPTOR = 60

_STATE_CLEARED = 1
_NEEDS_STATE = 2

# InternedData: categories, names of events, names of annotations; of each of them iid and name
_CATEGORIES, _NAMES, _ANNOTATIONS = 1, 2, 3
_IID, _INTERNED_NAME = 1, 2

# TrackDescriptor, ProcessDescriptor, ThreadDescriptor
_UUID, _PROCESS, _THREAD = 1, 3, 4
_PROCESS_PID, _PROCESS_NAME = 1, 6
_THREAD_PID, _THREAD_TID, _THREAD_NAME = 1, 2, 5

# TrackEvent, DebugAnnotation
_EVENT_CATEGORY, _EVENT_ANNOTATION, _EVENT_TYPE, _EVENT_NAME, _EVENT_TRACK = 3, 4, 9, 10, 11
_BEGIN, _END = 1, 2
_ANNOTATION_NAME, _ANNOTATION_INT, _ANNOTATION_STRING = 1, 4, 6

_PROCESS_NAMES = {"device": "IPU (modelled)", "host": "host (measured)"}
_SEQUENCE_ID = 1
_PS_PER_NS = 1000


def perfetto_trace(tracks: Iterable[Track]) -> bytes:
    """Returns a trace file of these tracks."""
    return b"".join(message(_PACKET, *packet) for packet in _Sequence().packets(tracks))


class _Sequence:
    """Writes packets, and interns the names that they use."""

    def __init__(self) -> None:
        self._iids: dict[tuple[int, str], int] = {}
        self._new: list[bytes] = []
        self._is_first = True

    def packets(self, tracks: Iterable[Track]) -> Iterator[list[bytes]]:
        """Yields the fields of each packet."""
        pids: dict[str, int] = {}
        for uuid, track in enumerate(tracks, start=len(_PROCESS_NAMES) + 1):
            if track.place not in pids:
                pids[track.place] = len(pids) + 1
                yield self._packet(_process(track.place, pids[track.place]))
            yield self._packet(_thread(track, pids[track.place], uuid))
            yield from self._events(track, uuid)

    def _events(self, track: Track, uuid: int) -> Iterator[list[bytes]]:
        """Yields the begin and the end of each slice, in the order of time."""
        open_slices: list[TraceSlice] = []
        for piece in track.slices:
            while open_slices and open_slices[-1].end <= piece.begin:
                yield self._end(open_slices.pop(), uuid)
            open_slices.append(piece)
            yield self._begin(piece, uuid)
        while open_slices:
            yield self._end(open_slices.pop(), uuid)

    def _begin(self, piece: TraceSlice, uuid: int) -> list[bytes]:
        fields = [
            integer(_EVENT_TYPE, _BEGIN),
            integer(_EVENT_TRACK, uuid),
            integer(_EVENT_NAME, self._iid(_NAMES, piece.name)),
            integer(_EVENT_CATEGORY, self._iid(_CATEGORIES, piece.category)),
        ]
        for name, value in piece.details.items():
            number = integer(_ANNOTATION_NAME, self._iid(_ANNOTATIONS, name))
            if isinstance(value, int):
                content = integer(_ANNOTATION_INT, value)
            else:
                content = text(_ANNOTATION_STRING, value)
            fields.append(message(_EVENT_ANNOTATION, number, content))
        return self._packet(message(_TRACK_EVENT, *fields), piece.begin)

    def _end(self, piece: TraceSlice, uuid: int) -> list[bytes]:
        event = message(_TRACK_EVENT, integer(_EVENT_TYPE, _END), integer(_EVENT_TRACK, uuid))
        return self._packet(event, piece.end)

    def _packet(self, content: bytes, time_ps: int | None = None) -> list[bytes]:
        flags = _NEEDS_STATE | (_STATE_CLEARED if self._is_first else 0)
        self._is_first = False
        fields = [content, integer(_SEQUENCE, _SEQUENCE_ID), integer(_SEQUENCE_FLAGS, flags)]
        if time_ps is not None:
            fields.append(integer(_TIMESTAMP, time_ps // _PS_PER_NS))
        if self._new:
            fields.append(message(_INTERNED_DATA, *self._new))
            self._new = []
        return fields

    def _iid(self, kind: int, name: str) -> int:
        """Returns the number of a name; the next packet defines a new one."""
        key = kind, name
        if key not in self._iids:
            self._iids[key] = len(self._iids) + 1
            entry = integer(_IID, self._iids[key]), text(_INTERNED_NAME, name)
            self._new.append(message(kind, *entry))
        return self._iids[key]


def _process(place: str, pid: int) -> bytes:
    process = integer(_PROCESS_PID, pid), text(_PROCESS_NAME, _PROCESS_NAMES[place])
    return message(_TRACK_DESCRIPTOR, integer(_UUID, pid), message(_PROCESS, *process))


def _thread(track: Track, pid: int, uuid: int) -> bytes:
    thread = (
        integer(_THREAD_PID, pid),
        integer(_THREAD_TID, uuid),
        text(_THREAD_NAME, track.name),
    )
    return message(_TRACK_DESCRIPTOR, integer(_UUID, uuid), message(_THREAD, *thread))
