"""Keras' downloads, replaced while a script runs.

Weights of `keras.applications` cannot be generated, since none would be trained: models keep those
that they are made with.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

from ipu_tf.compat.offline.file_systems import without_remote_files
from ipu_tf.compat.offline.files import WRITERS
from ipu_tf.compat.offline.network import OfflineError, without_network

_LOG = logging.getLogger(__name__)

_WEIGHTS = "/keras-applications/"
"""A part of the addresses of the weights of `keras.applications`."""

_NO_WEIGHTS = "no_weights"

_OF_THE_REAL_FILE = ("file_hash", "md5_hash", "hash_algorithm", "force_download", "cache_dir")


@contextlib.contextmanager
def without_downloads() -> Iterator[None]:
    """Gives generated files for the addresses that `keras.datasets` loads, and random weights.

    Keras' own loaders read them, so that `load_data` and `get_file` work with all their arguments.
    Networks of `keras.applications` keep the weights that they are made with, and a warning says
    so. The files are in a folder that is gone afterwards; the user's cache is not touched.

    Any other download raises an `OfflineError` that names its address, also one by `urllib`,
    `requests` or a socket. Files that Keras has downloaded before are found in the user's cache.
    """
    from ipu_tf.internals.keras_downloads import replaced_downloads, replaced_readers

    with (
        tempfile.TemporaryDirectory(prefix="ipu_tf-offline-") as folder,
        replaced_downloads(functools.partial(_generating, Path(folder))),
        replaced_readers(functools.partial(_loading, Path(folder))),
        without_network(),
        without_remote_files(),
    ):
        yield


def _generating(folder: Path, get_file: Callable[..., str]) -> Callable[..., str]:
    """Returns a `get_file` that gives generated files."""
    sources = folder / "sources"
    sources.mkdir(exist_ok=True)  # Each Keras has such a function.

    @functools.wraps(get_file)
    def get_generated_file(fname: Any = None, origin: Any = None, **options: Any) -> str:
        if _is_of_weights(origin):
            return str(_without_weights(folder, origin))
        if origin not in WRITERS:
            # A file of the user's cache is no download; any other fails without the network.
            return get_file(fname, origin, **options)
        source = sources / origin.rpartition("/")[2]
        if not source.exists():
            WRITERS[origin](source)
            _LOG.warning("Generated data takes the place of %s (--offline).", origin)
        arguments = {
            name: value for name, value in options.items() if name not in _OF_THE_REAL_FILE
        }
        return get_file(fname or source.name, source.as_uri(), cache_dir=str(folder), **arguments)

    return get_generated_file


def _is_of_weights(origin: Any) -> bool:
    return isinstance(origin, str) and _WEIGHTS in origin and origin.endswith(".h5")


def _without_weights(folder: Path, origin: str) -> Path:
    """Returns the path of an empty file in place of an address's weights; logs a warning."""
    empty = folder / _NO_WEIGHTS / origin.rpartition("/")[2]
    empty.parent.mkdir(exist_ok=True)
    if not empty.exists():
        empty.touch()
        _LOG.warning(
            "Random weights take the place of %s (--offline): the model is not trained.", origin
        )
    return empty


def _loading(folder: Path, load_weights: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a `Model.load_weights` that leaves a model its weights where there are none."""

    @functools.wraps(load_weights)
    def load_existing_weights(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        if Path(filepath).parent == folder / _NO_WEIGHTS:
            return None
        return load_weights(model, filepath, *args, **kwargs)

    return load_existing_weights


def way_out(error: BaseException) -> str | None:
    """Returns advice if the error is of a download that failed."""
    if isinstance(error, OfflineError):
        return None
    if any(address in str(error) for address in WRITERS):
        return (
            "`ipu-tf run --offline` gives the script generated data of the same shapes, dtypes and "
            "value ranges."
        )
    if any(map(_is_of_network, _causes(error))):
        return (
            "`ipu-tf run --offline` generates the data sets of `keras.datasets`, gives networks of "
            "`keras.applications` random weights, and fails all "
            "other downloads: download this file before, and give the script its path."
        )
    return None


def _is_of_network(error: BaseException) -> bool:
    """Returns whether an error says that an address cannot be reached."""
    if isinstance(error, URLError | socket.gaierror):
        return True
    # TensorFlow's own file systems fail in many ways, and name the file.
    if "URL fetch failure" in str(error) or "gs://" in str(error):
        return True
    requests = sys.modules.get("requests")
    return requests is not None and isinstance(error, requests.exceptions.ConnectionError)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error, then those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
