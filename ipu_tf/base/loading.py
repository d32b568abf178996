"""Commands without a garbage collector that walks over large modules and graphs again and again."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

_OBJECTS = 200_000
"""New objects from one collection to the next: some tens of MB."""


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Collects no garbage inside, where TensorFlow is imported, nor later what lives by its end.

    The modules make millions of objects that stay: to walk over them costs a third of the time of
    an estimate. Later it collects rarely, since the graph of a step is large and all of it in use.
    Does nothing if TensorFlow is loaded already: the objects may be of a script.
    """
    if "tensorflow" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
        gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    finally:
        gc.enable()
