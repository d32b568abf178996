"""Puts the copies of a block into sequences that list what the traced blocks have."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from ipu_tf.compiler.equal_blocks.repetition import FIRST, SECOND, Block, NotRepeated, Repetition


class _Op(Protocol):
    """An op in a list, a frozen dataclass."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def layer(self) -> str:
        """The path of its layer."""


OpT = TypeVar("OpT", bound=_Op)


def spliced(
    items: Sequence[tuple[Block | None, object]], copies: int
) -> list[tuple[int, int | None]]:
    """Returns the places of a sequence with those of copied blocks among them.

    What the second of the inner blocks lists without a break follows that of the copies, in the
    order of the blocks; where it comes before that of the first, as in a backward pass, the copies
    follow it, against that order.

    Args:
        items: The block of each item, and what tells it from others of its block: equal for equal
            items of both inner blocks. Of several equal ones the n-th is like the n-th.
        copies: Blocks between the inner two.

    Returns:
        Of each new item the place of its like in `items`, and its block: None outside of the inner
        ones, 0 of the first, 1 of the first copy, and so on up to the second. The place is that
        of the first block's.

    Raises:
        NotRepeated: The blocks list different things.
    """
    keys = _occurrence_keys(items)
    firsts, seconds = (
        {key: place for place, key in enumerate(keys) if items[place][0] == block}
        for block in (FIRST, SECOND)
    )
    if firsts.keys() != seconds.keys():
        raise NotRepeated("The blocks list different things.")
    result: list[tuple[int, int | None]] = []
    for block, run in itertools.groupby(range(len(items)), key=lambda place: items[place][0]):
        places = list(run)
        if block != SECOND:
            result += [(place, 0 if block == FIRST else None) for place in places]
            continue
        like = [firsts[keys[place]] for place in places]
        numbers = list(range(1, copies + 2))
        if like[0] > places[0]:
            numbers.reverse()
        result += [(place, number) for number in numbers for place in like]
    return result


def _occurrence_keys(items: Iterable[tuple[Block | None, object]]) -> list[object]:
    """Returns what tells items of a block apart, with their number among equal ones."""
    counts: dict[object, int] = {}
    keys: list[object] = []
    for item in items:
        counts[item] = counts.get(item, 0) + 1
        keys.append((item[1], counts[item]))
    return keys


def lengthened_ops(ops: Sequence[OpT], repetition: Repetition) -> list[OpT]:
    """Returns a list of ops of the traced blocks with those of all others.

    Raises:
        NotRepeated: The inner blocks have different ops.
    """
    blocks = [repetition.block_of(op.layer) for op in ops]
    items = [
        (
            block,
            dataclasses.replace(  # type: ignore[type-var]
                op,
                name=repetition.normalised(op.name),
                layer=repetition.normalised(op.layer),
            ),
        )
        for block, op in zip(blocks, ops, strict=True)
    ]
    copies = repetition.copies
    places = spliced(items, copies)
    seconds = [op for block, op in zip(blocks, ops, strict=True) if block == SECOND]
    likes = [place for place, block in places if block == copies + 1]
    second_of = dict(zip(likes, seconds, strict=True))
    result = []
    for place, block in places:
        op = second_of[place] if block else ops[place]
        if block and block <= copies:
            op = dataclasses.replace(  # type: ignore[type-var]
                op,
                name=repetition.renamed(op.name, block - 1),
                layer=repetition.renamed(op.layer, block - 1),
            )
        result.append(op)
    return result
