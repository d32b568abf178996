"""Loads large modules without the garbage collector, which would walk over them again and again."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Collects no garbage inside, where TensorFlow is imported, nor later what lives by its end.

    The modules make millions of objects that stay: to walk over them costs a third of the time of
    an estimate. Does nothing if TensorFlow is loaded already: the objects may be of a script.
    """
    if "tensorflow" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
