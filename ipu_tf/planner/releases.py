"""Differences between the planners of poplibs releases, to compare with measured figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ipu_tf.machine.contractions import METHODS

Role: TypeAlias = Literal["output", "reduction", "streamed"]
"""Role of an extent in a method. output: stays in the AMP units, poplibs' output channels.
reduction: summed over, poplibs' input channels. streamed: all others."""

ROLES: frozenset[Role] = frozenset(get_args(Role))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The behaviour of one release's planner.

    Attributes:
        name: Its name.
        cycle_backoff: Extra cycles accepted for less memory, as a share of the fewest cycles.
        methods: The methods that it knows, keys of `METHODS`.
        serial_roles: Roles of the extents that may be split into serial steps.
        even: Roles of the extents whose serial steps must all have the same size.
        arrivals: Whether plans rank with the cycles of operands that arrive from elsewhere.
    """

    name: str
    cycle_backoff: float = 0.0
    methods: frozenset[str] = frozenset(METHODS)
    serial_roles: frozenset[Role] = ROLES
    even: frozenset[Role] = frozenset()
    arrivals: bool = True

    def __post_init__(self) -> None:
        if self.cycle_backoff < 0:
            raise ValueError(
                f"Release.cycle_backoff must not be negative. Received: {self.cycle_backoff!r}."
            )
        if not self.methods or not self.methods <= METHODS.keys():
            names = ", ".join(METHODS)
            raise ValueError(
                f"Release.methods must be some of {names}. Received: {sorted(self.methods)}."
            )
        for field in ("serial_roles", "even"):
            roles = getattr(self, field)
            if not roles <= ROLES:
                raise ValueError(
                    f"Release.{field} must be some of {', '.join(get_args(Role))}. "
                    f"Received: {sorted(roles)}."
                )


CURRENT = Release(
    name="current",
    # Serial splits of input channels divide their number (ConvModel.cpp). Steps over streamed
    # extents are ours: poplibs takes none.
    even=frozenset({"reduction"}),
)
"""As poplibs 3.4: the fewest cycles, by any method."""

FIRST = Release(
    name="first",
    # poplibs of 2019, ConvOptions::cycleBackoffPercent, deprecated in the same year: the plan
    # with the least memory among those within 20% of the fewest cycles.
    cycle_backoff=0.2,
    # Before SLIC and vertical MAC vertices. poplibs' sources of that year know several filter rows
    # in a pass, but convolutions of groups of 8 channels ran no faster on the measured SDK than
    # without them, and far slower at batches that fit only with them (CIT table 5.5).
    methods=frozenset(METHODS) - {"slic", "vertical_mac", "amp_nx1_2_rows", "amp_nx1_4_rows"},
    # poplibs of 2019, ConvPlan.cpp: serial splits are of output channels alone, and divide their
    # number.
    serial_roles=frozenset({"output"}),
    even=frozenset({"output"}),
    # What was measured had its operands where the plan wants them.
    arrivals=False,
)
"""As the first public SDKs (1.x), from when the planner chooses serial splits itself: without them
no square matmul of 1,600 rows fits a GC2, and 2,944 were measured."""
