"""'Did you mean' for dotted names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKE_ENOUGH = 0.6  # difflib's own default cutoff


def suggestion(word: str, names: Iterable[str]) -> str:
    """Returns " Did you mean '...'?" with the closest name, or "" when none is close.

    Users often look for an option in the wrong category, so it compares the last parts as well as
    the whole names.

    Args:
        word: Dotted name that does not exist.
        names: Dotted names that do.
    """
    best, best_score = "", 0.0
    for name in names:
        score = _likeness(word, name)
        if score > best_score:
            best, best_score = name, score
    return f" Did you mean '{best}'?" if best_score >= _LIKE_ENOUGH else ""


def _likeness(word: str, name: str) -> float:
    """Returns how alike two dotted names are; ties of the better part go to the whole."""
    full = difflib.SequenceMatcher(None, word, name).ratio()
    last = difflib.SequenceMatcher(None, word.rpartition(".")[2], name.rpartition(".")[2]).ratio()
    return max(full, last) + full / 100.0
