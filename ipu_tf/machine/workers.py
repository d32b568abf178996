"""The six workers of a tile share items; the slowest worker counts.

Models the barrel: every worker has one instruction slot in `target.workers` cycles, so a vertex
takes that many times the slots of its slowest worker, however few of them have work. Does not
model workers that start one after the other, nor waits for memory.
"""

from __future__ import annotations

from ipu_tf.machine.cost import Count, ceil_div
from ipu_tf.machine.target import Target


def slowest_share(items: Count, target: Target) -> Count:
    """Returns the number of items of the worker with the most of them."""
    return ceil_div(items, target.workers)


def barrel_cycles(slots: Count, target: Target) -> Count:
    """Returns the tile cycles in which a worker issues so many instruction slots."""
    return target.workers * slots
