"""Files of a long run: a file for each block of draws, and the state of the chains between blocks.

A file is written under another name first, then renamed: a process that is killed, or a disk that
is full, leaves whole files only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Arrays = list[NDArray[np.generic]]

_STATE = "chains.npz"
_FORMAT = 1


class ChainMismatch(ValueError):
    """The files in a directory are of other chains."""


class ChainFiles:
    """The files of a run.

    Args:
        directory: Their directory, made if it does not exist.
        identity: What makes a run the same run: names and values, as JSON holds them.

    Attributes:
        directory: The directory.

    Raises:
        ChainMismatch: The directory has the files of another run.
    """

    def __init__(self, directory: str | os.PathLike[str], identity: dict[str, object]) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._identity = {"format": _FORMAT, **identity}

    def write_block(self, index: int, draws: Arrays) -> None:
        """Writes the draws of a block.

        Raises:
            OSError: The disk is full, say; what was written before is kept.
        """
        self._write(self._block(index), draws)

    def write_state(self, blocks: int, state: Arrays) -> None:
        """Writes the state of the chains after some blocks, whose draws are in files.

        Raises:
            OSError: The disk is full, say; the state before is kept.
        """
        text = json.dumps({"blocks": blocks, "identity": self._identity})
        self._write(self.directory / _STATE, [np.array(text), *state])

    def read_state(self) -> tuple[int, Arrays] | None:
        """Returns the number of finished blocks and the state of the chains; None before the first.

        Raises:
            ChainMismatch: The state is that of another run.
        """
        path = self.directory / _STATE
        if not path.exists():
            return None
        header, *state = _read(path)
        found = json.loads(str(header))
        self._check(found["identity"])
        return found["blocks"], state

    def read_block(self, index: int) -> Arrays:
        """Returns the draws of a finished block."""
        return _read(self._block(index))

    def _block(self, index: int) -> Path:
        return self.directory / f"block_{index:06d}.npz"

    def _check(self, found: dict[str, object]) -> None:
        wanted = json.loads(json.dumps(self._identity))
        for name in [*wanted, *(name for name in found if name not in wanted)]:
            if wanted.get(name) != found.get(name):
                raise ChainMismatch(
                    f"The chains in '{self.directory}' cannot be resumed: they have "
                    f"{name}={found.get(name)!r}, and this run has {name}={wanted.get(name)!r}. "
                    "Use another directory, or the arguments and the kernel of the first run."
                )

    def _write(self, path: Path, arrays: Sequence[NDArray[np.generic]]) -> None:
        unfinished = path.with_suffix(".unfinished")
        try:
            with unfinished.open("wb") as file:
                np.savez(file, *arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise OSError(
                error.errno,
                f"The chains could not be written to '{path}' ({error.strerror}). The blocks "
                "before are kept: make room and run again with the same directory",
            ) from error


def _read(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as file:
        return [file[name] for name in file.files]
