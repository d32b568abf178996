"""Compares two reports: what is better and what is worse, program by program.

Programs and layers are compared with those of the same name, and with those that Keras named
alike but for the number; see `counterparts`. Programs of one name are compared in their order, and
two reports of one program each whatever the names.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.base.whole_files import write_whole
from ipu_tf.profile.comparison import comparison_page, comparison_text
from ipu_tf.profile.comparison.counterparts import layer_counterparts, program_counterparts
from ipu_tf.profile.comparison.differences import (
    ENERGY,
    MEMORY,
    RUN_TIME,
    TIME,
    UTILISATION,
    Difference,
    Differences,
    ProgramComparison,
)
from ipu_tf.profile.figures import energy
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.report import Report
from ipu_tf.profile.text.words import WORDS
from ipu_tf.programs.program import Program
from ipu_tf.tile_program.device_program import DeviceProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportComparison:
    """Two reports, program by program.

    Attributes:
        programs: The programs of both.
        only_before: Names of programs of the first report alone.
        only_after: Names of programs of the second report alone.
    """

    programs: tuple[ProgramComparison, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()

    def regressions(self, max_regression: float = 0.0) -> tuple[str, ...]:
        """Returns a line for everything that got worse by more than a share.

        Looks at the time of a sample (of a run, where samples are not known), at the fullest tile,
        at whether programs fit, and at programs that are gone.

        Args:
            max_regression: The share, 0.02 for 2%.
        """
        missing_programs = (f"'{name}' is not in the second report" for name in self.only_before)
        each = (line for one in self.programs for line in one.regressions(max_regression))
        return (*missing_programs, *each)

    def to_dict(self) -> dict[str, object]:
        """Returns all figures as plain data; docs/report.md describes them."""
        return {
            "programs": [program.to_dict() for program in self.programs],
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
        }

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the comparison as one self-contained HTML file, replaced if it exists."""
        page = comparison_page.comparison_page(
            self.programs, self.only_before, self.only_after, str(self)
        )
        write_whole(path, page)

    def __str__(self) -> str:
        lines = comparison_text.lines(self.programs, self.only_before, self.only_after)
        return "\n".join(lines)


def compare(
    before: Report | str | os.PathLike[str], after: Report | str | os.PathLike[str]
) -> ReportComparison:
    """Returns what is better and what is worse in the second of two reports.

    Args:
        before: A report, or its file.
        after: Another one.

    Raises:
        FileNotFoundError: There is no such file.
        ReportFileError: A file holds no report.
        TypeError: An argument is neither a report nor a path.

    Example:
        >>> print(ipu_tf.profile.compare("before.json", strategy.report()))
    """
    one, other = _report(before, "before"), _report(after, "after")
    first, second = _compiled(one), _compiled(other)
    pairs = program_counterparts(first, second)
    if len(first) == len(second) == 1:
        pairs = [(next(iter(first)), next(iter(second)))]
    old_of_new = {new: old for old, new in pairs if old is not None and new is not None}
    return ReportComparison(
        programs=tuple(
            _programs(first[old_of_new[key]], second[key]) for key in second if key in old_of_new
        ),
        only_before=tuple(first[key].name for key in first if key not in old_of_new.values()),
        only_after=tuple(second[key].name for key in second if key not in old_of_new),
    )


def _report(report: object, name: str) -> Report:
    if isinstance(report, Report):
        return report
    if isinstance(report, str | os.PathLike):
        return Report.from_json(report)
    raise TypeError(
        f"`{name}` must be a Report or the path of a report's file. "
        f"Received: {report!r} of type {type(report).__name__}."
    )


def _compiled(report: Report) -> dict[str, Program]:
    """Returns the compiled programs by their name and their number among those of the name."""
    programs: dict[str, Program] = {}
    counts: collections.Counter[str] = collections.Counter()
    for program in report.programs:
        if program.device is not None:
            programs[f"{program.name}.{counts[program.name]}"] = program
            counts[program.name] += 1
    return programs


def _programs(before: Program, after: Program) -> ProgramComparison:
    one, other = before.device, after.device
    assert one is not None
    assert other is not None
    layers = _layer_differences(_layers(one), _layers(other))
    by_change = sorted(layers, key=lambda entry: -abs((entry.after or 0) - (entry.before or 0)))
    return ProgramComparison(
        name=after.name,
        totals=_totals(before, after),
        phases=_differences(_phases(one), _phases(other)),
        activities=_differences(_activities(one), _activities(other)),
        layers=tuple(by_change),
        categories=_differences(_categories(one), _categories(other)),
        ipus=_differences(_ipus(one), _ipus(other)),
        work=_differences(_work(one), _work(other)),
        fits=(one.fits, other.fits),
        words=WORDS[other.front],
    )


def _differences(before: Mapping[str, float], after: Mapping[str, float]) -> Differences:
    """Returns the figures of either mapping, in the order of the second one first."""
    names = dict.fromkeys([*after, *before])
    return tuple(
        Difference(name=name, before=before.get(name), after=after.get(name)) for name in names
    )


def _layer_differences(before: Mapping[str, float], after: Mapping[str, float]) -> Differences:
    """Returns the cycles of layers of either report, under their names in the second one."""
    return tuple(
        Difference(
            name=(old if new is None else new) or "",
            before=None if old is None else before[old],
            after=None if new is None else after[new],
        )
        for old, new in layer_counterparts(before, after)
    )


def _totals(before: Program, after: Program) -> Differences:
    """Returns the figures of whole programs that are known of at least one."""
    one, other = dict(_totals_of(before)), dict(_totals_of(after))
    # The time of a run says nothing if runs are of different size.
    quantity = TIME if one[TIME] is not None and other[TIME] is not None else RUN_TIME
    left_out = RUN_TIME if quantity == TIME else TIME
    return tuple(
        Difference(
            name=name,
            before=one[name],
            after=other[name],
            more_is_better=name in ("samples a second", UTILISATION),
        )
        for name in one
        if name != left_out and (one[name] is not None or other[name] is not None)
    )


def _totals_of(program: Program) -> Iterator[tuple[str, float | None]]:
    device = program.device
    assert device is not None
    rate = device.samples_per_second
    yield "cycles a run", device.cycles
    yield TIME, 1 / rate if rate else None
    yield RUN_TIME, figures.seconds(device)
    yield "samples a second", rate
    yield UTILISATION, figures.flop_utilisation(device, program.tile_ops)
    yield ENERGY, energy.joules_per_sample(device, program.tile_ops)
    yield MEMORY, max(_ipus(device).values())
    yield "streaming memory, bytes", device.streaming_bytes


def _phases(device: DeviceProgram) -> dict[str, float]:
    if device.front == "poplar":
        return {}
    passes: collections.Counter[str] = collections.Counter()
    for step in device.steps:
        passes[step.phase] += device.times[step.phase] * step.cycles
    phases: dict[str, float] = {phase: passes[phase] for phase in figures.PHASES}
    return phases | {
        "all-reduce": device.all_reduce_cycles,
        "links between stages": device.timeline.link_cycles,
    }


def _activities(device: DeviceProgram) -> dict[str, float]:
    shares = figures.cycle_shares(device)
    return {name: getattr(shares, name) for name in ("compute", "exchange", "sync", "host")}


def _layers(device: DeviceProgram) -> dict[str, float]:
    return {layer.layer: layer.cycles for layer in figures.layers(device)}


def _categories(device: DeviceProgram) -> dict[str, float]:
    categories: collections.Counter[str] = collections.Counter()
    for ipu in device.ipus:
        for category, values in figures.by_category(ipu.memory).items():
            categories[category] += int(values.sum())
    return dict(categories)


def _ipus(device: DeviceProgram) -> dict[str, float]:
    return {f"IPU {ipu.ipu}": _fullest(figures.tile_bytes(ipu.memory)) for ipu in device.ipus}


def _work(device: DeviceProgram) -> dict[str, float]:
    if device.front == "poplar":
        return {}
    busy = zip(device.ipus, device.timeline.busy_cycles, strict=True)
    return {f"IPU {ipu.ipu}": cycles for ipu, cycles in busy}


def _fullest(tile_bytes: NDArray[np.int64] | Iterable[int]) -> int:
    return int(max(tile_bytes, default=0))
