"""Vertices that reduce windows (pooling), and that spread values back over them.

Modelled after poplibs' pooling vertices: workers share the outputs by rows of channel vectors;
every window position loads a vector and accumulates it. Spreading the gradient of a maximum
compares each position with the maximum and adds where it is equal.
"""

from __future__ import annotations

import numpy as np

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices.vertex import Vertex, dealt_cycles, vector_elements, vertex

_START_SLOTS = 40
_OUTPUT_SLOTS = 6
_POSITION_SLOTS = 2  # a load beside the operation of the position before, address and count
_SCATTER_POSITION_SLOTS = 4  # two loads, a comparison, an addition that is stored


def window_reduce(
    outputs: Count, window: Count, dtype: str, target: Target, *, channels: Count = 1
) -> Vertex:
    """Returns the cost of reducing windows.

    Args:
        outputs: Elements of the tile's share of the result.
        window: Positions of a window.
        dtype: Type of the elements.
        target: The machine.
        channels: Elements that lie side by side in the windows, which fill vectors.
    """
    return _windows(
        "window_reduce", outputs, window, dtype, target, channels, _POSITION_SLOTS, bundles=70
    )


def select_and_scatter(
    sources: Count, window: Count, dtype: str, target: Target, *, channels: Count = 1
) -> Vertex:
    """Returns the cost to add each source to the position that its window selects."""
    return _windows(
        "select_and_scatter",
        sources,
        window,
        dtype,
        target,
        channels,
        _SCATTER_POSITION_SLOTS,
        bundles=96,
    )


def _windows(
    name: str,
    outputs: Count,
    window: Count,
    dtype: str,
    target: Target,
    channels: Count,
    slots: int,
    *,
    bundles: int,
) -> Vertex:
    side_by_side = np.clip(np.asarray(channels), 1, vector_elements(dtype))
    cycles = dealt_cycles(
        ceil_div(outputs, side_by_side),
        target,
        slots_per_item=_OUTPUT_SLOTS + slots * np.asarray(window),
        start_slots=_START_SLOTS,
    )
    return vertex(name, dtype, outputs, cycles, pointers=8, bundles=bundles)
