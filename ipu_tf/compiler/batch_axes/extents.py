"""The extents of arrays, in sets that grow with the samples, do not, or are still open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ipu_tf.compiler.hlo import Array, Type

Axes: TypeAlias = tuple[int, ...]
"""The extents of one array, each by its number."""


class NotInferable(ValueError):
    """It does not follow from a step which of its sizes grow with the samples."""


class Extents:
    """Numbers extents, joins equal ones, and knows which of them count samples."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._counts: list[bool | None] = []

    def of_arrays(self, type_: Type) -> tuple[Axes, ...]:
        """Returns new open extents for an array, or for those of a tuple one after the other."""
        if isinstance(type_, Array):
            first = len(self._parents)
            axes = tuple(range(first, first + len(type_.dims)))
            self._parents += axes
            self._counts += [None] * len(axes)
            return (axes,)
        return tuple(axes for part in type_.parts for axes in self.of_arrays(part))

    def counts_samples(self, extent: int) -> bool | None:
        """Returns whether an extent grows with the samples, None if that is open."""
        return self._counts[self._find(extent)]

    def join(self, first: int, second: int) -> None:
        """Makes two extents equal.

        Raises:
            NotInferable: One grows with the samples and the other one does not.
        """
        root, other = self._find(first), self._find(second)
        if root == other:
            return
        counts_samples = self._counts[other]
        if counts_samples is not None:
            self.fix(root, counts_samples=counts_samples)
        self._parents[other] = root

    def join_all(self, first: Sequence[int], second: Sequence[int]) -> None:
        """Makes the extents of two arrays equal, one by one."""
        if len(first) != len(second):
            raise NotInferable(f"arrays of {len(first)} and {len(second)} dimensions are one")
        for one, other in zip(first, second, strict=True):
            self.join(one, other)

    def fix(self, extent: int, *, counts_samples: bool) -> None:
        """Notes whether an extent grows with the samples.

        Raises:
            NotInferable: The contrary is known.
        """
        root = self._find(extent)
        if self._counts[root] not in (None, counts_samples):
            raise NotInferable("an extent counts samples in one place and does not in another")
        self._counts[root] = counts_samples

    def _find(self, extent: int) -> int:
        parents = self._parents
        while parents[extent] != extent:
            parents[extent] = parents[parents[extent]]
            extent = parents[extent]
        return extent
