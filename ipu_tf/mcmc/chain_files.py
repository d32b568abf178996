"""Files of a long run: a file for each block of draws, and the state of the chains between blocks.

A process that is killed, or a disk that is full, leaves whole files only. The file of the state
holds checksums of itself and of the blocks before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipu_tf.base.whole_files import whole_file
from ipu_tf.mcmc.directory_lock import lock

Arrays = list[NDArray[np.generic]]

_STATE = "chains.npz"
_FORMAT = 2


class ChainMismatch(ValueError):
    """The files in a directory are of other chains."""


class DamagedChains(ValueError):
    """A file of the chains is not as it was written."""


@contextlib.contextmanager
def chain_files(
    directory: str | os.PathLike[str], identity: dict[str, object]
) -> Iterator[ChainFiles]:
    """Yields the files of a run, in a directory that no other run uses meanwhile.

    Args:
        directory: Their directory, made if it does not exist.
        identity: As of `ChainFiles`.

    Raises:
        ChainsInUse: Another run uses the directory.
    """
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    with lock(path):
        for unfinished in path.glob(".*.unfinished"):  # Of a process that was killed.
            unfinished.unlink()
        yield ChainFiles(path, identity)


class ChainFiles:
    """The files of a run.

    Args:
        directory: Their directory.
        identity: What makes a run the same run: names and values, as JSON holds them.

    Attributes:
        directory: The directory.
    """

    def __init__(self, directory: Path, identity: dict[str, object]) -> None:
        self.directory = directory
        self._identity = {"format": _FORMAT, **identity}
        self._checksums: dict[int, str] = {}

    def write_block(self, index: int, draws: Arrays) -> None:
        """Writes the draws of a block.

        Raises:
            OSError: The disk is full, say; what was written before is kept.
        """
        self._write(self._block(index), draws)
        self._checksums[index] = _checksum(draws)

    def write_state(self, blocks: int, state: Arrays) -> None:
        """Writes the state of the chains after some blocks, whose draws are in files.

        Raises:
            OSError: The disk is full, say; the state before is kept.
        """
        checksums = [self._checksums[index] for index in range(blocks)]
        header = {"checksums": checksums, "identity": self._identity}
        header["checksum"] = _checksum(state, header)
        self._write(self.directory / _STATE, [np.array(json.dumps(header)), *state])

    def read_state(self) -> tuple[int, Arrays] | None:
        """Returns the number of finished blocks and the state of the chains; None before the first.

        Raises:
            ChainMismatch: The state is that of another run.
            DamagedChains: The file is not as it was written.
        """
        path = self.directory / _STATE
        if not path.exists():
            return None
        with _damage_errors(path):
            text, *state = _read(path)
            header = json.loads(str(text))
            identity = header["identity"]
        self._check(identity)
        with _damage_errors(path):
            _check_sum(header.pop("checksum"), state, header)
            self._checksums = dict(enumerate(header["checksums"]))
        return len(self._checksums), state

    def read_block(self, index: int) -> Arrays:
        """Returns the draws of a block that was finished when the state was written.

        Raises:
            DamagedChains: The file is not as it was written.
        """
        path = self._block(index)
        with _damage_errors(path):
            draws = _read(path)
            _check_sum(self._checksums[index], draws)
        return draws

    def _block(self, index: int) -> Path:
        return self.directory / f"block_{index:06d}.npz"

    def _check(self, header: dict[str, object]) -> None:
        identity = json.loads(json.dumps(self._identity))
        for name in [*identity, *(name for name in header if name not in identity)]:
            if identity.get(name) != header.get(name):
                raise ChainMismatch(
                    f"The chains in '{self.directory}' cannot be resumed: they have "
                    f"{name}={header.get(name)!r}, and this run has {name}={identity.get(name)!r}. "
                    "Use another directory, or the arguments and the kernel of the first run."
                )

    def _write(self, path: Path, arrays: Sequence[NDArray[np.generic]]) -> None:
        try:
            with whole_file(path) as file:
                np.savez(file, *arrays)
        except OSError as error:
            raise OSError(
                error.errno,
                f"The chains could not be written to '{path}' ({error.strerror}). The blocks "
                "before are kept: make room and run again with the same directory",
            ) from error


def _read(path: Path) -> Arrays:
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        return [file[name] for name in file.files]


def _checksum(arrays: Arrays, header: dict[str, Any] | None = None) -> str:
    """Returns the SHA-256 of arrays, their types and shapes, and of a header, in hexadecimal."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype.kind}{array.itemsize}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _check_sum(checksum: str, arrays: Arrays, header: dict[str, Any] | None = None) -> None:
    if _checksum(arrays, header) != checksum:
        raise ValueError("its checksum is another")


@contextlib.contextmanager
def _damage_errors(path: Path) -> Iterator[None]:
    """Raises DamagedChains for whatever reading a file raises.

    The errors of NumPy, zip files and JSON for arbitrary bytes are of a dozen types.
    """
    try:
        yield
    except PermissionError:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise DamagedChains(
            f"The chains cannot be resumed: '{path}' is damaged or missing ({reason}). Restore "
            "the file from a copy, or use another directory, in which the run begins anew."
        ) from error
