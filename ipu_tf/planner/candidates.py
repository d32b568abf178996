"""Plans in the form that the cost model reads: one plan, or an array of plans of one method."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.cost import Count, as_counts
from ipu_tf.planner.plan import Plan
from ipu_tf.planner.shapes import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Plans of one method; every count is an int, or an array with one entry per plan.

    Attributes:
        splits: Parts of every extent.
        serial: Number of these parts that a tile computes in turn, for extents that allow it.
        method: The vertices, a key of `METHODS`.
        grain: Reduction elements of one AMP pass.
        partials: Type of the partial results.
    """

    splits: Block
    serial: Block
    method: str
    grain: int
    partials: str

    @classmethod
    def of(cls, plan: Plan) -> Candidates:
        """Returns a single plan."""
        return cls(
            splits=plan.splits,
            serial=plan.serial,
            method=plan.method,
            grain=plan.grain,
            partials=plan.partials,
        )

    @property
    def steps(self) -> Count:
        """Blocks that every tile computes, one after the other."""
        return math.prod(self.serial.values())

    @property
    def tiles(self) -> Count:
        """Tiles that a plan occupies."""
        return self.tile_parts(self.splits)

    def tile_parts(self, names: Iterable[str]) -> Count:
        """Returns the number of tiles that share the named extents."""
        return math.prod(self._tile_parts(name) for name in names)

    def serial_steps(self, names: Iterable[str]) -> Count:
        """Returns the number of serial steps over the named extents."""
        return math.prod(self.serial.get(name, 1) for name in names)

    def take(self, indices: NDArray[np.intp] | NDArray[np.bool_]) -> Candidates:
        """Returns the plans at some indices, or under a mask."""
        return Candidates(
            splits={name: as_counts(parts)[indices] for name, parts in self.splits.items()},
            serial={
                name: steps if isinstance(steps, int) else steps[indices]
                for name, steps in self.serial.items()
            },
            method=self.method,
            grain=self.grain,
            partials=self.partials,
        )

    def _tile_parts(self, name: str) -> Count:
        steps = self.serial.get(name, 1)
        if isinstance(steps, int) and steps == 1:
            return self.splits[name]
        return self.splits[name] // steps
