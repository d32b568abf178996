"""Tensors whose elements lie side by side along rows of a product, in groups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The order of a tensor in memory.

    Attributes:
        dimension: The dimension of the tensor along which elements lie side by side.
        group: How many of them do.
        rows: Rows of the product that made it: groups begin with the first of so many.
    """

    dimension: int
    group: int
    rows: int
