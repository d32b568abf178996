"""Which tile computes an element of a superstep's result.

Knows results whose elements the superstep computes where they lie, and results of contractions.
Does not know views, nor layouts that only have a name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ipu_tf.machine.superstep import Superstep
from ipu_tf.tile_program.layouts.layout import LINEAR, BlockLayout, Layout, tile_offsets
from ipu_tf.tile_program.layouts.layout_form import linear
from ipu_tf.tile_program.layouts.plan_layout import dimensions_layout
from ipu_tf.tile_program.tile_work import PlanWork, StageWork

_RESULTS = (
    (("batch",), ("rows",), ("columns",)),
    (("batch",), ("field_rows",), ("field_columns",), ("groups", "out_channels")),
    (("kernel_rows",), ("kernel_columns",), ("in_channels",), ("groups", "out_channels")),
)
"""The dimensions of results by the splits of plans: of a matrix product, a convolution, and the
gradient of its filter."""


def tile_of_element(superstep: Superstep, shape: Sequence[int], index: Sequence[int]) -> int | None:
    """Returns the number of the tile that computes an element; None where it is not known.

    Args:
        superstep: The last superstep of a step with work for tiles.
        shape: The shape of the result.
        index: The indices of the element.
    """
    work = superstep.work
    elements = math.prod(shape)
    layout: Layout | None
    if isinstance(work, StageWork):
        where = work.where
        layout = linear(elements, where.tiles) if where.layout == LINEAR else where.layout
        first_tile, tiles = where.first_tile, work.tiles
        if where.elements != elements or where.repeats is not None:
            return None
    elif isinstance(work, PlanWork):
        layout = _of_result(work, shape)
        first_tile, tiles = work.first_tile, work.target.tiles
    else:
        return None
    if not isinstance(layout, BlockLayout) or layout.elements != elements:
        return None
    flat = int(np.ravel_multi_index(tuple(index), tuple(shape))) if shape else 0
    return (first_tile + int(tile_offsets(layout)[flat])) % tiles


def _of_result(work: PlanWork, shape: Sequence[int]) -> Layout | None:
    """Returns the layout of the result of a contraction; None where its shape is another."""
    extents = work.shape.extents
    for names in _RESULTS:
        if not all(name in extents for splits in names for name in splits):
            continue
        sizes = [math.prod(extents[name] for name in splits) for splits in names]
        if _without_ones(sizes) == _without_ones(shape):
            dimensions = tuple(zip(sizes, names, strict=True))
            return dimensions_layout(dimensions, "result", work.shape, work.plan)
    return None


def _without_ones(sizes: Sequence[int]) -> list[int]:
    return [size for size in sizes if size != 1]
