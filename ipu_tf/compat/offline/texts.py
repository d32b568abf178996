"""A text of the size and the characters of the published plays, that can be learned.

Its words are invented; they repeat as often as words of a language do. It comes from a fixed seed.
"""

from __future__ import annotations

import string

import numpy as np

_SEED = 2020
_WORDS = 5000
_SPEAKERS = 40
_MARKS = "!$&',-.3:;?"
_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"


def plays(length: int) -> str:
    """Returns a text of speakers and their lines.

    Args:
        length: Its characters, of 65 kinds: letters, blanks, ends of lines and marks.
    """
    random = np.random.default_rng((_SEED, length))
    words = _words(random, _WORDS)
    speakers = [word.capitalize() for word in _words(random, _SPEAKERS)]
    # Every character occurs, however short the rest is.
    parts = [f"{string.ascii_uppercase} {string.ascii_lowercase} {_MARKS}\n\n"]
    missing = length - len(parts[0])
    while missing > 0:
        lines = [_line(random, words) for _ in range(random.integers(1, 7))]
        speaker = speakers[int(random.integers(_SPEAKERS))]
        parts.append(f"{speaker}:\n" + "\n".join(lines) + "\n\n")
        missing -= len(parts[-1])
    return "".join(parts)[:length]


def _words(random: np.random.Generator, count: int) -> list[str]:
    """Returns words of one to three syllables."""
    return [
        "".join(
            _CONSONANTS[random.integers(len(_CONSONANTS))] + _VOWELS[random.integers(len(_VOWELS))]
            for _ in range(random.integers(1, 4))
        )
        for _ in range(count)
    ]


def _line(random: np.random.Generator, words: list[str]) -> str:
    """Returns a line, in which the word of rank k is 1/k as likely as the first."""
    ranks = np.exp(random.random(random.integers(4, 10)) * np.log(len(words))).astype(int) - 1
    text = " ".join(words[rank] for rank in ranks)
    return text.capitalize() + random.choice(list(",,,..;:?!"))
