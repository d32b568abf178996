"""The result of a sweep: a table, its Pareto front, CSV and a page."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass

from ipu_tf.base.whole_files import write_whole
from ipu_tf.profile.text.table import table
from ipu_tf.profile.text.units import joules, kib, memory, percent
from ipu_tf.sweep.estimates import Estimate, pareto_front, varying
from ipu_tf.sweep.point import FIGURES, Outcome, Point
from ipu_tf.sweep.sweep_page import sweep_page

_HEADER = (
    "samples/s on device",
    "cycles",
    "tiles in all",
    "fullest tile, KiB",
    "peak",
    "energy",
    "",
    "",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The estimates of a sweep, in the order of its points.

    Attributes:
        model: Name of the model's function.
        training: Whether they are of training steps.
        estimates: The estimates.
    """

    model: str
    training: bool
    estimates: tuple[Estimate, ...]

    @property
    def front(self) -> tuple[Estimate, ...]:
        """The Pareto front, the estimate in least memory first.

        No other estimate that fits has as many samples a second in as little memory on all tiles.
        """
        return pareto_front(self.estimates)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes every estimate as a row of CSV: parameters, figures, verdict and error."""
        front = set(map(id, self.front))
        text = io.StringIO()
        writer = csv.writer(text)
        names = list(Point().labels())
        writer.writerow([*names, *FIGURES, "verdict", "on_front", "error"])
        for each in self.estimates:
            figures = (
                "" if each.outcome.error or value is None else value
                for value in (getattr(each.outcome, name) for name in FIGURES)
            )
            writer.writerow(
                [
                    *each.point.labels().values(),
                    *figures,
                    each.outcome.verdict,
                    id(each) in front,
                    each.outcome.error,
                ]
            )
        write_whole(path, text.getvalue())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page with a chart of throughput against memory, the Pareto front marked."""
        page = sweep_page(self.model, self.training, self.estimates, str(self))
        write_whole(path, page)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        step = "training steps" if self.training else "predictions"
        yield f"{len(self.estimates)} estimates of {step} of {self.model}; all are modelled"
        yield ""
        front = set(map(id, self.front))
        names = varying(self.estimates)
        rows = [
            [
                *(str(each.point.labels()[name]) for name in names),
                *_cells(each.outcome),
                "on the front" if id(each) in front else "",
            ]
            for each in self.estimates
        ]
        header = [name.replace("_", " ") for name in names]
        yield from table([*header, *_HEADER], rows)
        counts: dict[str, int] = {}
        for each in self.estimates:
            if each.outcome.error:
                counts[each.outcome.error] = counts.get(each.outcome.error, 0) + 1
        for error, times in counts.items():
            yield ""
            yield f"{times} failed: {error}"


def _cells(outcome: Outcome) -> list[str]:
    if outcome.error:
        return ["-"] * 6 + [outcome.verdict]
    rate, energy = outcome.samples_per_second, outcome.joules_per_sample
    return [
        "-" if rate is None else f"{rate:,.1f}",
        f"{outcome.cycles:,}",
        memory(outcome.memory_bytes),
        kib(outcome.max_tile_bytes),
        percent(outcome.flop_utilisation),
        "-" if energy is None else joules(energy),
        outcome.verdict,
    ]
