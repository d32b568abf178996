"""A call once TensorFlow has been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from ipu_tf.compat.later_finders import call_around, later_spec

_WATCHED = frozenset({"tensorflow", "keras", "ipu_tf"})
"""The packages that import TensorFlow, itself among them, and that the function may import."""


class TensorFlowLoading:
    """Calls a function once TensorFlow is loaded and no module that leads to it is half imported.

    The function may import Keras and modules of this package: one of them may be what imports
    TensorFlow.

    Args:
        then: The function.
    """

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._depth = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec that another finder has, with its execution watched."""
        if name not in _WATCHED and not name.startswith("ipu_tf."):
            return None
        spec = later_spec(self, name, path, target)
        if spec is not None:
            call_around(spec, self._execute_and_check)
        return spec

    def stop(self) -> None:
        """Stops waiting."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _execute_and_check(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        self._depth += 1
        try:
            execute(module)
        finally:
            self._depth -= 1
        if not self._depth and "tensorflow" in sys.modules and self in sys.meta_path:
            self.stop()
            self._then()
