"""Prints what viewers read from trace files, as JSON; runs in the environment of the viewers.

Its arguments are a file for Perfetto and one for TensorBoard.
"""

import json
import sys
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from xprof.convert.raw_to_tool_data import xspace_to_tool_data


def perfetto_slices(path):
    """The slices of each track of a file, with interned names resolved."""
    names = {"event_names": {}, "event_categories": {}, "debug_annotation_names": {}}
    processes, tracks, open_slices = {}, {}, {}
    for packet in Trace.FromString(Path(path).read_bytes()).packet:
        for kind, known in names.items():
            for entry in getattr(packet.interned_data, kind):
                assert entry.iid not in known, "an id is defined twice"
                known[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            if descriptor.HasField("process"):
                processes[descriptor.process.pid] = descriptor.process.process_name
            else:
                place = processes[descriptor.thread.pid]
                tracks[descriptor.uuid] = {
                    "name": descriptor.thread.thread_name,
                    "process": place,
                    "slices": [],
                    "times": [],
                }
        if packet.HasField("track_event"):
            event = packet.track_event
            track = tracks[event.track_uuid]
            track["times"].append(packet.timestamp)
            stack = open_slices.setdefault(event.track_uuid, [])
            if event.type == TrackEvent.TYPE_SLICE_END:
                stack.pop()["end"] = packet.timestamp
                continue
            assert event.type == TrackEvent.TYPE_SLICE_BEGIN
            found = {
                "name": names["event_names"][event.name_iid],
                "category": [names["event_categories"][iid] for iid in event.category_iids],
                "begin": packet.timestamp,
                "depth": len(stack),
                "details": {
                    names["debug_annotation_names"][entry.name_iid]: entry.int_value
                    if entry.HasField("int_value")
                    else entry.string_value
                    for entry in event.debug_annotations
                },
            }
            stack.append(found)
            track["slices"].append(found)
    assert not any(open_slices.values()), "a slice does not end"
    return list(tracks.values())


def trace_viewer_events(path):
    """The events that TensorBoard's trace viewer shows."""
    content, _ = xspace_to_tool_data([path], "trace_viewer", {})
    return json.loads(content)["traceEvents"]


perfetto, xplane = sys.argv[1:]
print(json.dumps({"perfetto": perfetto_slices(perfetto), "xplane": trace_viewer_events(xplane)}))
