"""The equal blocks of a model, of which a trace has four: the first two and the last two."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

TRACED = 4
"""Blocks in a trace: two between others, which show what follows what, and one on either side."""

BEFORE, FIRST, SECOND, BEHIND = range(TRACED)
"""The blocks of a trace. Copies of the second stand between it and the first."""

Block: TypeAlias = int
"""One of the blocks of a trace."""

_NUMBERS = re.compile(r"(?:_\d+)+(?=/|$)")


class NotRepeated(ValueError):
    """The blocks of a trace differ in more than their layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNames:
    """What a block is called.

    Attributes:
        layers: Names of its layers.
        variables: Paths of its variables, by the names of those that an optimizer keeps for them:
            "_" stands for "/".
    """

    layers: tuple[str, ...]
    variables: tuple[str, ...] = ()


class Repetition:
    """The equal blocks of a model.

    Args:
        blocks: All of them, in the order of the model, at least as many as a trace has. The n-th
            layer of one equals the n-th of any other, and so do their variables.
    """

    def __init__(self, blocks: Sequence[BlockNames]) -> None:
        *_, self._template, _ = blocks
        self._inner_blocks = blocks[2:-2]
        traced = [*blocks[:2], *blocks[-2:]]
        self._block_of = {
            layer: number for number, block in enumerate(traced) for layer in block.layers
        }
        self._position_of = {
            layer: f"<{position}>"
            for block in traced
            for position, layer in enumerate(block.layers)
        }
        self._variables = {
            variable: position
            for block in traced
            for position, variable in enumerate(block.variables)
        }
        self._renames: list[Mapping[str, str]] = [
            dict(zip(self._template.layers, block.layers, strict=True))
            for block in self._inner_blocks
        ]

        self._normal_paths: dict[str, str] = {}
        self._copy_paths: list[dict[str, str]] = [{} for _ in self._inner_blocks]

    @property
    def copies(self) -> int:
        """Blocks that are not in the trace."""
        return len(self._inner_blocks)

    def block_of(self, path: str) -> Block | None:
        """Returns the block of a path of layers, None of one outside of all blocks."""
        for part in path.split("/"):
            if part in self._block_of:
                return self._block_of[part]
        return None

    def normalised(self, path: str) -> str:
        """Returns a path or a name of an op without what tells equal blocks apart."""
        if path not in self._normal_paths:
            parts = [_counterpart(part, self._position_of) for part in path.split("/")]
            self._normal_paths[path] = _NUMBERS.sub("", "/".join(parts))
        return self._normal_paths[path]

    def normalised_variable(self, path: str) -> str:
        """Returns the path of a variable, also one that an optimizer keeps, as `normalised`."""
        scope, _, name = path.rpartition("/")
        owner = max((one for one in self._variables if name.startswith(one)), key=len, default="")
        variable_name = f"<{self._variables[owner]}>{name[len(owner) :]}" if owner else name
        return self.normalised(f"{scope}/{variable_name}")

    def renamed(self, path: str, copy: int) -> str:
        """Returns what a path or an op of the second block is called in a copy.

        Args:
            path: Its path or name.
            copy: The number of the copy, from 0.
        """
        names, paths = self._renames[copy], self._copy_paths[copy]
        if path not in paths:
            paths[path] = "/".join([_counterpart(part, names) for part in path.split("/")])
        return paths[path]

    def renamed_variable(self, path: str, copy: int) -> str:
        """Returns what a variable, also one that an optimizer keeps, is called in a copy."""
        path = self.renamed(path, copy)
        scope, slash, name = path.rpartition("/")
        owners = [one for one in self._template.variables if name.startswith(one)]
        if not owners:
            return path
        owner = max(owners, key=len)
        position = self._template.variables.index(owner)
        return f"{scope}{slash}{self._inner_blocks[copy].variables[position]}{name[len(owner) :]}"


def _counterpart(part: str, names: Mapping[str, str]) -> str:
    """Returns what replaces a part of a path; TensorFlow numbers a scope that it has twice."""
    if part in names:
        return names[part]
    stem, line, number = part.rpartition("_")
    return f"{names[stem]}{line}{number}" if stem in names and number.isdigit() else part
