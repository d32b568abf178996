"""Cuts names to a width so that they still differ: the front and the end of a path both count."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

_LEFT_OUT = "..."
_AROUND = 2
"""Characters that stay in front of the first difference."""


def cut_middle(name: str, width: int) -> str:
    """Returns a name with its middle left out if it is longer than a width."""
    if len(name) <= width:
        return name
    room = width - len(_LEFT_OUT)
    end = (room + 1) // 2
    return name[: room - end] + _LEFT_OUT + name[len(name) - end :]


def cut_apart(names: Sequence[str], width: int) -> list[str]:
    """Returns names cut to a width; names that differ stay different.

    Names that would become equal keep the place where they differ. If a width does not suffice
    for that, they stay whole.

    Args:
        names: The names.
        width: Characters of each.
    """
    short_names = {name: cut_middle(name, width) for name in names}
    for group in _equal(short_names):
        short_names |= {name: _around_difference(name, group, width) for name in group}
    for group in _equal(short_names):
        short_names |= {name: name for name in group}
    return [short_names[name] for name in names]


def _equal(short_names: dict[str, str]) -> list[list[str]]:
    """Returns the groups of names that are cut to the same."""
    groups = defaultdict(list)
    for name, text in short_names.items():
        groups[text].append(name)
    return [group for group in groups.values() if len(group) > 1]


def _around_difference(name: str, group: Sequence[str], width: int) -> str:
    """Returns the front of a name, and what follows the place where the group differs."""
    columns = zip(*group, strict=False)
    prefix_length = len(list(itertools.takewhile(lambda column: len(set(column)) == 1, columns)))
    first = max(0, prefix_length - _AROUND)
    room = width - 2 * len(_LEFT_OUT)
    front = name[: max(0, room // 3)]
    suffix = name[first:]
    size = room - len(front)
    if len(suffix) > size:
        suffix = suffix[:size] + _LEFT_OUT
    return front + _LEFT_OUT + suffix
