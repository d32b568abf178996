"""Sweeps: estimates over chips, memories, batch sizes, replicas, splits and precisions.

`ipu_tf.sweep(...)` calls `sweep` of this package.
"""

import sys
from types import ModuleType
from typing import Any

from ipu_tf.sweep.estimates import Estimate
from ipu_tf.sweep.point import Outcome, Point, Streaming
from ipu_tf.sweep.progress import Progress
from ipu_tf.sweep.result import SweepResult
from ipu_tf.sweep.run import sweep
from ipu_tf.sweep.store import SweepFileError

__all__ = [
    "Estimate",
    "Outcome",
    "Point",
    "Progress",
    "Streaming",
    "SweepFileError",
    "SweepResult",
    "sweep",
]


class _Callable(ModuleType):
    """A module whose call is that of its function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> SweepResult:
        return sweep(*args, **kwargs)


# `import ipu_tf.sweep` binds the name to this module, so the module itself has to be the function.
sys.modules[__name__].__class__ = _Callable
