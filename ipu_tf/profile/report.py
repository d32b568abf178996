"""The report of a strategy or an estimate, as a value to print, keep and compare."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ipu_tf.base import spans
from ipu_tf.base.whole_files import write_whole
from ipu_tf.profile.data import csv_tables, json_format
from ipu_tf.profile.figures.host_timeline import HostTimeline
from ipu_tf.profile.html import report_page
from ipu_tf.profile.text import host_text, text, timeline_text
from ipu_tf.profile.text.rendering import Rendering, for_stream, rendering
from ipu_tf.profile.traces import files as traces
from ipu_tf.programs.insights import find_insights
from ipu_tf.programs.program import NativeOp, Program, TileOp

_EMPTY = "No program has been traced: call `strategy.run`, or `fit` a model in the scope."

_NOTEBOOK_WIDTH = 200

_NOTEBOOK_CODE = '<pre style="line-height: normal; white-space: pre">{code}</pre>'

_NO_STAGES = "No program has several stages: give the layers of a model pipeline stages."
_NO_STAGES_OF_GRAPHS = "No program has several stages: the IPUs of a graph of Poplar run in step."


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The traced programs and their cost on the machine.

    Attributes:
        programs: One for every function and set of shapes, in the order of their traces.
        notes: Caveats about all of them.
        host: The timeline of the host; None unless the strategy was made with `profile=True`.
    """

    programs: tuple[Program, ...] = ()
    notes: tuple[str, ...] = ()
    host: HostTimeline | None = None

    @property
    def tile_ops(self) -> tuple[TileOp, ...]:
        """Everything that runs as tile ops."""
        return tuple(op for program in self.programs for op in program.tile_ops)

    @property
    def native_ops(self) -> tuple[NativeOp, ...]:
        """Every contraction that TensorFlow's own kernels run, with its reason."""
        return tuple(op for program in self.programs for op in program.native_ops)

    @property
    def complete(self) -> bool:
        """Whether every program is compiled, and everything in it has a cost."""
        return all(program.complete for program in self.programs)

    def with_insights(self, *, all_changes: bool = True) -> Report:
        """Returns the report with the changes that would gain something, program by program.

        Every change is checked by planning the program again. The programs keep what is found, so
        it is found once. Programs of files, and of models that no longer exist, keep the insights
        that they have.

        Args:
            all_changes: Whether every change is planned, however long that takes; otherwise a note
                says where a program is too large.
        """
        with spans.unrecorded():  # The report's own work is no work of the script.
            for program in self.programs:
                find_insights(program, all_changes=all_changes)
        return self

    def summary(self, *, plans: bool = False) -> str:
        """Returns the report as text tables, as wide as the terminal, without colours.

        The first line says what limits the program that matters most, and what to do about it.

        Args:
            plans: Whether every tile op is listed with its plan.
        """
        if not self.programs:
            return _EMPTY
        overview = "\n".join(text.overview_lines(self.programs))
        blocks = [overview] if overview else []
        blocks += ["\n".join(text.program_lines(each, plans=plans)) for each in self.programs]
        if self.host is not None:
            blocks.append("\n".join(host_text.host_lines(self.host, self.programs)))
        if self.notes:
            blocks.append("\n".join(f"note: {note}" for note in self.notes))
        return "\n\n".join(blocks)

    def timeline(self) -> str:
        """Returns when each stage of a pipeline works on each micro-batch, and when it waits.

        Every program of several stages has a table with a row for each stage, as text that is
        as wide as the terminal, at most 100 characters without one.
        """
        devices = [program.device for program in self.programs if program.device is not None]
        pipelines = [device for device in devices if device.is_pipeline]
        if not pipelines:
            of_poplar = devices and all(device.front == "poplar" for device in devices)
            return _NO_STAGES_OF_GRAPHS if of_poplar else _NO_STAGES
        return "\n\n".join("\n".join(timeline_text.lines(device)) for device in pipelines)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as JSON; docs/report.md describes the file.

        Args:
            path: The file; replaced if it exists. Compressed with gzip if its name ends in ".gz".
        """
        json_format.write(self, path)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as one HTML file with charts that opens without a network.

        Args:
            path: The file; replaced if it exists.
        """
        with rendering(Rendering()):
            summary = self.summary()
        page = report_page(self.programs, notes=self.notes, host=self.host, text=summary)
        write_whole(path, page)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes the runs of the programs, and the host timeline, as a trace for Perfetto.

        Open it in https://ui.perfetto.dev, which reads the file in the browser.

        Args:
            path: The file; replaced if it exists.
        """
        traces.write_perfetto(self.programs, self.host, path)

    def to_xplane(self, log_dir: str | os.PathLike[str], run: str | None = None) -> Path:
        """Writes the same trace for TensorBoard's profile plugin.

        Args:
            log_dir: The folder that TensorBoard is started with, `tensorboard --logdir LOG_DIR`.
            run: The name of the run; by default the current date and time.

        Returns:
            The path of the file.
        """
        return traces.write_xplane(self.programs, self.host, log_dir, run)

    def to_csv(self, folder: str | os.PathLike[str]) -> None:
        """Writes the tables of the report as CSV files; docs/report.md lists them.

        Args:
            folder: The folder; made if it does not exist.
        """
        csv_tables.write_tables(self.programs, self.host, folder)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Report:
        """Returns the report that a file holds.

        Args:
            path: A file that `to_json` wrote.

        Raises:
            FileNotFoundError: There is no such file.
            ReportFileError: It holds no report, a damaged one, or one of a later version.
        """
        return json_format.read(cls, path)

    def __str__(self) -> str:
        """Returns the summary; with colours if the standard output is a terminal that has them."""
        with rendering(for_stream(sys.stdout)):
            return self.summary()

    def _repr_html_(self) -> str:
        """Returns the text with its colours, for notebooks."""
        from rich.text import Text

        with rendering(Rendering(colour=True)):
            content = Text.from_ansi(self.summary())
        console = Rendering(width=_NOTEBOOK_WIDTH).console(record=True)
        console.print(content, crop=False, overflow="ignore", no_wrap=True)
        return console.export_html(inline_styles=True, code_format=_NOTEBOOK_CODE)
