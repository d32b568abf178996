"""What releases of poplibs plan differently, for figures that were measured with them."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.machine.contractions import METHODS


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A planner's habits.

    Attributes:
        name: What it is called.
        cycle_backoff: Share of the fewest cycles that is given up for less memory.
        methods: The methods that it knows, keys of `METHODS`.
        whole: Extents that it never takes in serial steps.
    """

    name: str
    cycle_backoff: float = 0.0
    methods: frozenset[str] = frozenset(METHODS)
    whole: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.cycle_backoff < 0:
            raise ValueError(
                f"Release.cycle_backoff must not be negative. Received: {self.cycle_backoff!r}."
            )
        if not self.methods or not self.methods <= METHODS.keys():
            known = ", ".join(METHODS)
            raise ValueError(
                f"Release.methods must be some of {known}. Received: {sorted(self.methods)}."
            )


CURRENT = Release(name="current")
"""As poplibs 3.4: the fewest cycles, by any method."""

FIRST = Release(
    name="first",
    # poplibs before `availableMemoryProportion` was all there is (ConvOptions::cycleBackoffPercent,
    # deprecated later): a plan of least memory among those within 20% of the fewest cycles.
    cycle_backoff=0.2,
    # Before SLIC and vertical MAC vertices.
    methods=frozenset(METHODS) - {"slic", "vertical_mac"},
    # Steps are of channels alone: of a matmul, of its rows and of its reduction.
    whole=frozenset({"batch", "columns"}),
)
"""As the first public SDKs (1.x)."""
