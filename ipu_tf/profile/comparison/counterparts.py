"""Which name of one report is which of another, where Keras numbered them differently.

Keras numbers the layers of a process: those of a second model are `dense_2`, `dense_3` where those
of the first are `dense`, `dense_1`. Names are paths, and are matched level by level. At each level,
names that differ in their number alone form a group. If one report has all names of the group that
the other one has, equal names are counterparts; otherwise the first ones are, the second ones, and
so on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
Pair: TypeAlias = tuple[str | None, str | None]

_DEEPEST = 32
"""Levels of a path that are matched; the rest of a deeper one is a single name."""

_NUMBER = re.compile(r"_(\d{1,9})$")


def layer_counterparts(before: Iterable[str], after: Iterable[str]) -> list[Pair]:
    """Returns the layers of two reports in pairs; None where a layer has no counterpart.

    If one model of each report is left over, they are counterparts whatever their names.

    Args:
        before: Paths of the layers of the first report, such as "model/dense", each once.
        after: Those of the second one.
    """
    return _counterparts(before, after, "/", renamed=True)


def program_counterparts(before: Iterable[str], after: Iterable[str]) -> list[Pair]:
    """Returns the programs of two reports in pairs; None where a program has no counterpart.

    Args:
        before: Names of the programs of the first report, such as "model.train_step", each once.
        after: Those of the second one.
    """
    return _counterparts(before, after, ".", renamed=False)


def _counterparts(
    before: Iterable[str], after: Iterable[str], separator: str, *, renamed: bool
) -> list[Pair]:
    def name(path: Path | None) -> str | None:
        return None if path is None else separator.join(path)

    one, other = (
        [tuple(each.split(separator, _DEEPEST)) for each in names] for names in (before, after)
    )
    return [(name(first), name(second)) for first, second in _paths(one, other, renamed=renamed)]


def _paths(
    before: Sequence[Path], after: Sequence[Path], *, renamed: bool = False
) -> Iterator[tuple[Path | None, Path | None]]:
    if () in before or () in after:
        yield () if () in before else None, () if () in after else None
    ones, others = _levels(before), _levels(after)
    pairs = list(_of_one_level(list(ones), list(others)))
    if renamed:
        pairs = list(_with_the_only_other_model(pairs, ones, others))
    for one, other in pairs:
        of_one = () if one is None else ones[one]
        other_children = () if other is None else others[other]
        for first, second in _paths(of_one, other_children):
            yield (
                None if one is None or first is None else (one, *first),
                None if other is None or second is None else (other, *second),
            )


def _levels(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Returns the rests of paths by their first name."""
    groups: dict[str, list[Path]] = {}
    for path in paths:
        if path:
            groups.setdefault(path[0], []).append(path[1:])
    return groups


def _of_one_level(before: Sequence[str], after: Sequence[str]) -> Iterator[Pair]:
    ones, others = _groups(before), _groups(after)
    for group in dict.fromkeys([*others, *ones]):
        one, other = ones.get(group, []), others.get(group, [])
        if set(one) <= set(other) or set(other) <= set(one):
            for name in one if len(one) > len(other) else other:
                yield name if name in one else None, name if name in other else None
        else:
            yield from itertools.zip_longest(one, other)


def _groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Returns names in the order of their numbers, by what is before the number."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names, key=_number):
        groups.setdefault(_NUMBER.sub("", name), []).append(name)
    return groups


def _number(name: str) -> int:
    """Returns the number at the end of a name, -1 without one."""
    digits = _NUMBER.search(name)
    return int(digits[1]) if digits else -1


def _with_the_only_other_model(
    pairs: Sequence[Pair], ones: Mapping[str, list[Path]], others: Mapping[str, list[Path]]
) -> Iterator[Pair]:
    only_before = [pair for pair in pairs if pair[1] is None and ones[pair[0] or ""] != [()]]
    new = [pair for pair in pairs if pair[0] is None and others[pair[1] or ""] != [()]]
    if len(only_before) == len(new) == 1:
        yield only_before[0][0], new[0][1]
        yield from (pair for pair in pairs if pair not in (only_before[0], new[0]))
    else:
        yield from pairs
