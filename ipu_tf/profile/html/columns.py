"""Compact forms of lists of texts and of values of every tile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.tile_figures import TileRuns


class Texts:
    """Texts without repetitions, each with a number.

    Attributes:
        values: The texts, by number.
    """

    def __init__(self) -> None:
        self.values: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Returns the number of a text, a new one if it was not there."""
        if text not in self._numbers:
            self._numbers[text] = len(self.values)
            self.values.append(text)
        return self._numbers[text]


class TileColumns:
    """Values of every tile without repetitions, each list of them with a number.

    Attributes:
        values: The lists as runs, by number.
    """

    def __init__(self) -> None:
        self.values: list[list[int]] = []
        self._numbers: dict[TileRuns, int] = {}

    def number(self, column: TileRuns) -> int:
        """Returns the number of a list of values, a new one if it was not there."""
        if column not in self._numbers:
            self._numbers[column] = len(self.values)
            pairs = zip(column.values, column.tiles, strict=True)
            self.values.append([entry for pair in pairs for entry in pair])
        return self._numbers[column]


def runs(values: NDArray[np.int64]) -> list[int]:
    """Returns values as runs: a value, how often it follows itself, the next value, and so on."""
    if not values.size:
        return []
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    lengths = np.diff(np.r_[starts, values.size])
    return [int(entry) for pair in zip(values[starts], lengths, strict=True) for entry in pair]
