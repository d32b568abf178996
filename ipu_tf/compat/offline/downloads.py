"""Keras' downloads, replaced while a script runs."""

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

_OF_THE_REAL_FILE = ("file_hash", "md5_hash", "hash_algorithm", "force_download", "cache_dir")


@contextlib.contextmanager
def without_downloads() -> Iterator[None]:
    """Gives generated files for the addresses that `keras.datasets` loads.

    Keras' own loaders read them, so that `load_data` and `get_file` work with all their arguments.
    The files are in a folder that is gone afterwards; the user's cache is not touched.

    Any other download raises an `OfflineError` that names its address, also one by `urllib`,
    `requests` or a socket. Files that Keras has downloaded before are found in the user's cache.
    """
    from ipu_tf.internals.keras_downloads import replaced_downloads

    with (
        tempfile.TemporaryDirectory(prefix="ipu_tf-offline-") as folder,
        replaced_downloads(functools.partial(_generating, Path(folder))),
        without_network(),
        without_remote_files(),
    ):
        yield


def _generating(folder: Path, get_file: Callable[..., str]) -> Callable[..., str]:
    """Returns a `get_file` that gives generated files."""
    sources = folder / "sources"
    sources.mkdir()

    @functools.wraps(get_file)
    def get_generated_file(fname: Any = None, origin: Any = None, **options: Any) -> str:
        if origin not in WRITERS:
            # A file of the user's cache is no download; any other fails without the network.
            return get_file(fname, origin, **options)
        source = sources / origin.rpartition("/")[2]
        if not source.exists():
            WRITERS[origin](source)
            _LOG.warning("Generated data takes the place of %s (--offline).", origin)
        kept = {name: value for name, value in options.items() if name not in _OF_THE_REAL_FILE}
        return get_file(fname or source.name, source.as_uri(), cache_dir=str(folder), **kept)

    return get_generated_file


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
            "`ipu-tf run --offline` generates the data sets of `keras.datasets`, and fails all "
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
