"""Refuses files of other computers that TensorFlow's own file systems would read."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.compat.offline.network import OfflineError, replaced
from ipu_tf.internals.tensorflow import file_operations

_REMOTE = ("gs://", "s3://", "hdfs://", "viewfs://", "http://", "https://")
_OPERATIONS = (
    "BufferedInputStream",
    "CopyFile",
    "CreateDir",
    "DeleteFile",
    "DeleteRecursively",
    "FileExists",
    "GetChildren",
    "GetMatchingFiles",
    "HasAtomicMove",
    "IsDirectory",
    "RecursivelyCreateDir",
    "RenameFile",
    "Stat",
    "WritableFile",
)
"""What `tf.io.gfile` does with a path."""


@contextlib.contextmanager
def without_remote_files() -> Iterator[None]:
    """Makes `tf.io.gfile`, datasets of files and `tf.io.read_file` refuse files of other computers.

    They raise an `OfflineError` that names the address.
    """
    with contextlib.ExitStack() as stack:
        for name in _OPERATIONS:
            replaced(stack, file_operations, name, _checking_paths)
        for kind in (
            tf.data.FixedLengthRecordDataset,
            tf.data.TFRecordDataset,
            tf.data.TextLineDataset,
        ):
            replaced(stack, kind, "__init__", _checking_paths)
        for owner, name in ((tf.data.Dataset, "list_files"), (tf.io, "read_file")):
            replaced(stack, owner, name, _checking_paths)
        yield


def _checking_paths(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that looks at its paths first."""

    def check_and_call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            _check_paths(value)
        return stock(*args, **kwargs)

    return check_and_call


@functools.singledispatch
def _check_paths(value: Any) -> None:
    """Checks the paths in an argument.

    Raises:
        OfflineError: One is of another computer.
    """
    if tf.is_tensor(value) and value.dtype == tf.string and hasattr(value, "numpy"):
        _check_paths(value.numpy())


@_check_paths.register(str)
@_check_paths.register(bytes)
def _(value: Any) -> None:
    path = value.decode(errors="replace") if isinstance(value, bytes) else value
    if path.startswith(_REMOTE):
        raise OfflineError(path)


@_check_paths.register(list)
@_check_paths.register(tuple)
@_check_paths.register(np.ndarray)
def _(value: Any) -> None:
    for part in value:
        _check_paths(part)
