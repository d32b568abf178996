"""The balanced tree by which the values of replicas are reduced: 0 and 1, 2 and 3; then 0 and 2.

It is a tree over the numbers of the replicas, so the bits of a sum do not depend on which process
has which replica. `ops/tf/replicas/replica_combine.cc` and `ops/core/elements/tree_sum.cc` go
through the same tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

ValueT = TypeVar("ValueT")


def pairs(first: int, count: int, group: int) -> Iterator[tuple[int, int]]:
    """Yields the pairs of the tree over a group that lie among some of its replicas, in order.

    The left one of a pair then stands for both.

    Args:
        first: The number of the first replica in the group.
        count: How many replicas there are from it on.
        group: Replicas of the group.
    """
    end, step = first + count, 1
    while step < group:
        start = -(-first // (2 * step)) * 2 * step
        for left in range(start, end - step, 2 * step):
            if min(left + 2 * step, group) <= end:
                yield left, left + step
        step *= 2


def nodes(first: int, count: int, group: int) -> tuple[int, ...]:
    """Returns the numbers of the replicas that stand for all of some consecutive ones."""
    leaves = {right for _, right in pairs(first, count, group)}
    return tuple(number for number in range(first, first + count) if number not in leaves)


def reduced(
    values: Mapping[int, ValueT], group: int, join: Callable[[ValueT, ValueT], ValueT]
) -> ValueT:
    """Returns the value of the whole tree.

    Args:
        values: The values of nodes of the tree, by their numbers; together they are the group.
        group: Replicas of the group.
        join: Returns the value of a pair.
    """
    tree = dict(values)
    for left, right in pairs(0, group, group):
        if right in tree:
            tree[left] = join(tree[left], tree.pop(right))
    return tree[0]
