"""The line that `fit` prints on a terminal after its first step: its cost on the chip."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from pathlib import Path

from ipu_tf.keras.adapters.graphs import GraphModel
from ipu_tf.keras.adapters.loops import Logs
from ipu_tf.profile.text.units import kib, percent
from ipu_tf.programs.calls import call_of
from ipu_tf.programs.program import Program

_last_lines: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()


def is_printed(verbose: object) -> bool:
    """Returns whether `fit` prints the line: on a terminal, unless it is silent."""
    return verbose != 0 and sys.stdout is not None and sys.stdout.isatty()


class CostLine:
    """A callback: prints the modelled speed and memory of a training step, once for the same ones.

    Its base is the class of callbacks of a Keras; see `in_keras`.

    Args:
        others: The callbacks of the same `fit`; the line names the reports that they write.
    """

    model: GraphModel

    def __init__(self, callbacks: Iterable[object]) -> None:
        super().__init__()
        self._reports = [path for callback in callbacks for path in getattr(callback, "paths", ())]
        self._is_done = False

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Prints the line after the first step."""
        if self._is_done:
            return
        self._is_done = True
        programs = self.model.distribute_strategy.report(insights=False).programs
        own = [p for p in programs if p.name == f"{self.model.name}.train_step" and p.device]
        line = cost_line(own[-1], self._reports) if own else ""
        if line and _last_lines.get(self.model) != line:
            _last_lines[self.model] = line
            print(line, flush=True)


def cost_line(program: Program, reports: Iterable[Path] = ()) -> str:
    """Returns the modelled samples a second, tile memory, and the paths of reports, in one line.

    Args:
        program: A compiled program.
        reports: The paths.
    """
    device = program.device
    if device is None:
        raise ValueError(f"Program '{program.name}' is not compiled. Received: device=None.")
    ipus = device.replicas * device.replica_ipus
    chip = f"{ipus} {device.target.chip} IPUs" if ipus > 1 else f"one {device.target.chip} IPU"
    speed = call_of(device, program.steps_per_execution).samples_per_second
    fullest, limit = int(device.memory.peak_tile_bytes.max(initial=0)), device.memory.limit_bytes
    parts = [
        f"{speed:,.1f} samples/s ({device.samples_per_second:,.1f} on the device)"
        if speed is not None
        else f"{device.cycles:,} cycles a step",
        f"fullest tile {kib(fullest)} of {kib(limit)} KiB ({percent(fullest / limit)})"
        + ("" if device.fits else ", OUT OF MEMORY"),
        *(f"report in {path}" for path in reports),
    ]
    return f"On {chip}, modelled: {'; '.join(parts)}."
