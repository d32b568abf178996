"""Figures of two programs side by side, and which is better."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipu_tf.profile.text.words import WORDS, Words

Verdict: TypeAlias = Literal["better", "worse", "same", "new", "gone"]

TABLES = ("totals", "phases", "activities", "layers", "categories", "ipus", "work")
"""The tables of a comparison, in the order of its text."""

TIME = "seconds a sample"
RUN_TIME = "seconds a run"
UTILISATION = "utilisation"
ENERGY = "joules a sample"
MEMORY = "fullest tile, bytes"

_KINDS_WITH_LIMIT = (TIME, RUN_TIME, MEMORY)
"""The totals that `regressions` looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A figure of two programs; less is better unless `more_is_better`.

    Attributes:
        name: Its name, such as a layer.
        before: In the first report; None if it is not there.
        after: In the second report; None if it is not there.
        more_is_better: Whether more is better.
    """

    name: str
    before: float | None
    after: float | None
    more_is_better: bool = False

    @property
    def growth(self) -> float:
        """The change as a share of the figure before; infinite from 0, 0 for new and gone ones."""
        if self.before is None or self.after is None or self.before == self.after:
            return 0.0
        return (self.after - self.before) / self.before if self.before else math.inf

    @property
    def verdict(self) -> Verdict:
        """Whether the second report is better."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        if self.before == self.after:
            return "same"
        return "better" if (self.after > self.before) == self.more_is_better else "worse"

    def to_dict(self) -> dict[str, object]:
        """Returns the figure as plain data; an infinite growth is null."""
        growth = self.growth if math.isfinite(self.growth) else None
        return {
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "growth": growth,
            "verdict": self.verdict,
        }


Differences: TypeAlias = tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramComparison:
    """The figures of two programs.

    Attributes:
        name: Name of the program in the second report.
        totals: Cycles, time, rate, memory, energy of a run.
        phases: Cycles of the forward and backward passes, the update and the all-reduce.
        activities: Cycles of compute, exchange, sync and host.
        layers: Cycles of every layer, the largest change first.
        categories: Bytes on all tiles of all IPUs at the peak, by category of memory.
        ipus: Bytes of the fullest tile of every IPU.
        work: Cycles of a run in which every IPU works on micro-batches.
        fits: Whether the programs fit, in both reports.
        words: What its parts are called.
    """

    name: str
    totals: Differences
    phases: Differences
    activities: Differences
    layers: Differences
    categories: Differences
    ipus: Differences
    work: Differences
    fits: tuple[bool, bool]
    words: Words = WORDS["tensorflow"]

    def regressions(self, limit: float) -> Iterator[str]:
        """Yields a line for every total that grew by more than a share, and for lost memory."""
        if self.fits == (True, False):
            yield f"'{self.name}' fits no longer"
        for total in self.totals:
            if total.name in _KINDS_WITH_LIMIT and total.growth > limit:
                growth = (
                    f"{100 * total.growth:.2f}%" if math.isfinite(total.growth) else "from zero"
                )
                yield f"'{self.name}': {total.name} grew {growth}, from {total.before:.6g} to " + (
                    f"{total.after:.6g}; at most {100 * limit:g}% are allowed"
                )

    def to_dict(self) -> dict[str, object]:
        """Returns all figures as plain data."""
        tables = {name: [entry.to_dict() for entry in getattr(self, name)] for name in TABLES}
        return {"program": self.name, "fits": list(self.fits), **tables}
