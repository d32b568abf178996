"""The tables of a report as CSV files, one row a line, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from ipu_tf.base.whole_files import write_whole
from ipu_tf.profile.data.json_figures import device_figures
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.figures.host_timeline import HostTimeline
from ipu_tf.programs.program import Program

Row: TypeAlias = Mapping[str, object]

_PROGRAM_COLUMNS = (
    "chip",
    "system",
    "replicas",
    "micro_batches",
    "cycles",
    "seconds",
    "samples_per_update",
    "samples_per_second",
    "flops",
    "flop_utilisation",
    "tile_balance",
    "bubble_share",
    "link_cycles",
    "update_cycles",
    "all_reduce_cycles",
    "streaming_bytes",
    "fits",
    "complete",
)
"""The figures of a program that are single values."""


def write_tables(
    programs: Iterable[Program], host: HostTimeline | None, folder: str | os.PathLike[str]
) -> None:
    """Writes `programs.csv`, `layers.csv`, `steps.csv`, `memory.csv`, `tensors.csv`, `host.csv`.

    A table without rows has no file.

    Args:
        programs: The programs of a report.
        host: Its host timeline.
        folder: The folder; made if it does not exist. Files of these names are replaced.
    """
    programs = tuple(programs)
    tables: dict[str, Iterable[Row]] = {
        "programs": _program_rows(programs),
        "layers": _layer_rows(programs),
        "steps": _step_rows(programs),
        "memory": _memory_rows(programs),
        "tensors": _tensor_rows(programs),
        "host": _host_rows(host),
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        path, content = Path(folder) / f"{name}.csv", list(rows)
        if content:
            text = io.StringIO()
            writer = csv.DictWriter(text, fieldnames=list(content[0]))
            writer.writeheader()
            writer.writerows(content)
            write_whole(path, text.getvalue())
        else:
            path.unlink(missing_ok=True)


def _program_rows(programs: Iterable[Program]) -> Iterator[Row]:
    for program in programs:
        if program.device is not None:
            device = device_figures(program.device, program.tile_ops)
            cycles = cast("Mapping[str, float]", device["cycles_by_kind"])
            kinds = {f"{kind}_cycles": n for kind, n in cycles.items()}
            yield {
                "program": program.name,
                **{name: device[name] for name in _PROGRAM_COLUMNS},
                **kinds,
            }


def _layer_rows(programs: Iterable[Program]) -> Iterator[Row]:
    for program in programs:
        if program.device is not None:
            device = device_figures(program.device, program.tile_ops)
            for layer in cast("list[Row]", device["layers"]):
                yield {"program": program.name, **layer}


def _step_rows(programs: Iterable[Program]) -> Iterator[Row]:
    for program in programs:
        for stage in program.device.stages if program.device is not None else ():
            for number, step in enumerate(stage.program.steps):
                shares = figures.cycles_of(step)
                exchange_bytes = sum(superstep.exchange_bytes for superstep in step.supersteps)
                yield {
                    "program": program.name,
                    "stage": stage.index,
                    "ipu": stage.ipu,
                    "step": number,
                    "name": step.name,
                    "opcode": step.opcode,
                    "op_name": step.op_name,
                    "layer": step.layer,
                    "phase": step.phase,
                    "repeats": step.repeats,
                    "supersteps": len(step.supersteps),
                    "cycles": step.cycles,
                    "compute_cycles": shares.compute,
                    "exchange_cycles": shares.exchange,
                    "sync_cycles": shares.sync,
                    "host_cycles": shares.host,
                    "exchange_bytes": step.repeats * exchange_bytes,
                    "flops": step.repeats * step.flops,
                }


def _memory_rows(programs: Iterable[Program]) -> Iterator[Row]:
    for program in programs:
        for ipu in program.device.ipus if program.device is not None else ():
            memory = ipu.memory
            for kind in ("always_live", "not_always_live_peak"):
                for category, tiles in getattr(memory, kind).items():
                    if tiles.any():
                        yield {
                            "program": program.name,
                            "ipu": ipu.ipu,
                            "category": category,
                            "live": "always" if kind == "always_live" else "at the peak",
                            "bytes": int(tiles.sum()),
                            "fullest_tile_bytes": int(tiles[memory.fullest_tile]),
                            "tile_limit_bytes": memory.limit_bytes,
                        }


def _tensor_rows(programs: Iterable[Program]) -> Iterator[Row]:
    for program in programs:
        for stage in program.device.stages if program.device is not None else ():
            for tensor in stage.program.tensors:
                yield {
                    "program": program.name,
                    "stage": stage.index,
                    "ipu": stage.ipu,
                    "name": tensor.name,
                    "layer": tensor.layer,
                    "category": tensor.category,
                    "bytes": tensor.bytes,
                    "first_step": tensor.first_step,
                    "last_step": tensor.last_step,
                    "always_live": tensor.always_live,
                }


def _host_rows(host: HostTimeline | None) -> Iterator[Row]:
    for span in host.spans if host is not None else ():
        yield {
            "track": span.track,
            "category": span.category,
            "name": span.name,
            "program": span.program,
            "steps": span.steps,
            "begin_ns": span.begin_ns,
            "duration_ns": span.end_ns - span.begin_ns,
        }
