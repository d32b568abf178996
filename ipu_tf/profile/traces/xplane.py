"""Traces as an `XSpace`, in the layout of TensorBoard's profile plugin.

A plane for each IPU and one for the host, a line for each thread. The trace viewer shows planes of
devices that are no GPU or TPU only under names that begin with "/device:CUSTOM:". Numbers are
those of the fields in `tsl/profiler/protobuf/xplane.proto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ipu_tf.profile.traces.trace_slices import TraceSlice
from ipu_tf.profile.traces.tracks import Track
from ipu_tf.profile.traces.wire import integer, message, text

_PLANE = 1

# XPlane
_PLANE_ID, _PLANE_NAME, _LINE, _EVENT_METADATA, _STAT_METADATA = 1, 2, 3, 4, 5

# XLine
_LINE_ID, _LINE_NAME, _LINE_BEGIN_NS, _EVENT = 1, 2, 3, 4

# XEvent, XStat
_EVENT_METADATA_ID, _OFFSET_PS, _DURATION_PS, _STAT = 1, 2, 3, 4
_STAT_METADATA_ID, _STAT_INT, _STAT_STRING = 1, 4, 5

# An entry of a map, and XEventMetadata and XStatMetadata
_KEY, _VALUE = 1, 2
_METADATA_ID, _METADATA_NAME = 1, 2

_HOST = "/host:CPU"
_STEPS_LINE = "modelled run"


def xspace(tracks: Iterable[Track], *, began_unix_ns: int = 0) -> bytes:
    """Returns the file of these tracks.

    Args:
        tracks: The tracks.
        began_unix_ns: Time 0 of the tracks, in nanoseconds since 1970.
    """
    tracks = list(tracks)
    planes = [
        _plane(number, f"/device:CUSTOM:IPU:{track.number}", [(_STEPS_LINE, track)], began_unix_ns)
        for number, track in enumerate((t for t in tracks if t.place == "device"), start=1)
    ]
    threads = [(track.name, track) for track in tracks if track.place == "host"]
    if threads:
        planes.append(_plane(0, _HOST, threads, began_unix_ns))
    return b"".join(planes)


def _plane(number: int, name: str, lines: Sequence[tuple[str, Track]], began_ns: int) -> bytes:
    events, stats = _Metadata(_EVENT_METADATA), _Metadata(_STAT_METADATA)
    fields = [integer(_PLANE_ID, number), text(_PLANE_NAME, name)]
    for line, (line_name, track) in enumerate(lines, start=1):
        content = (_event(piece, events, stats) for piece in track.slices)
        head = (
            integer(_LINE_ID, line),
            text(_LINE_NAME, line_name),
            integer(_LINE_BEGIN_NS, began_ns),
        )
        fields.append(message(_LINE, *head, *content))
    return message(_PLANE, *fields, *events.entries, *stats.entries)


def _event(piece: TraceSlice, events: _Metadata, stats: _Metadata) -> bytes:
    fields = [
        integer(_EVENT_METADATA_ID, events.number(piece.name)),
        integer(_OFFSET_PS, piece.begin),
        integer(_DURATION_PS, piece.end - piece.begin),
    ]
    details = {"category": piece.category, **piece.details}
    for name, value in details.items():
        key = integer(_STAT_METADATA_ID, stats.number(name))
        fields.append(message(_STAT, key, _value(value)))
    return message(_EVENT, *fields)


def _value(value: int | str) -> bytes:
    return integer(_STAT_INT, value) if isinstance(value, int) else text(_STAT_STRING, value)


class _Metadata:
    """The names of a plane's events or figures, by number.

    Args:
        field: The number of the plane's field that maps numbers to names.
    """

    def __init__(self, field: int) -> None:
        self._field = field
        self._numbers: dict[str, int] = {}
        self.entries: list[bytes] = []

    def number(self, name: str) -> int:
        """Returns the number of a name."""
        if name not in self._numbers:
            number = self._numbers[name] = len(self._numbers) + 1
            fields = integer(_METADATA_ID, number), text(_METADATA_NAME, name)
            self.entries.append(
                message(self._field, integer(_KEY, number), message(_VALUE, *fields))
            )
        return self._numbers[name]
