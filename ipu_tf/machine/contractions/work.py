"""The work of one tile in a contraction, in the terms of its vertices."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractionWork:
    """A tile's block of a contraction as a convolution: a matmul is one with a 1x1 filter.

    Every count is an int, or an integer array with one entry per candidate plan.

    Attributes:
        groups: Groups of channels, computed one after the other.
        positions: Output positions of a group (rows of a matmul).
        row_positions: Positions that lie side by side; a work item of a worker.
        in_channels: Elements of one run of the reduction.
        out_channels: Outputs at every position.
        taps: Filter positions: runs of the reduction.
        tap_rows: Rows of the filter; at most `taps`.
        stride: Input positions from one output position of a row to the next.
        dtype: Type of the inputs.
        partials: Type of the partial results.
    """

    groups: Count = 1
    positions: Count
    row_positions: Count
    in_channels: Count
    out_channels: Count
    taps: Count = 1
    tap_rows: Count = 1
    stride: int = 1
    dtype: str
    partials: str

    def items_of_slowest_worker(self, target: Target) -> tuple[Count, Count]:
        """Returns a worker's work items and the positions of each, for even shares of rows."""
        share = ceil_div(self.positions, target.workers)
        items = ceil_div(share, self.row_positions)
        return items, ceil_div(share, items)
