"""Names of Python's library that Python has dropped since scripts of the vendor's were written."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def abstract_classes_in_collections() -> Iterator[None]:
    """Gives `collections` the abstract classes (`Mapping`, `Iterable`, ...) of `collections.abc`.

    They were there until Python 3.9.
    """
    names = [name for name in collections.abc.__all__ if not hasattr(collections, name)]
    for name in names:
        setattr(collections, name, getattr(collections.abc, name))
    try:
        yield
    finally:
        for name in names:
            delattr(collections, name)
