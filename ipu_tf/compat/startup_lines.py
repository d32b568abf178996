"""TensorFlow starts without a word about the machine, unless it is asked for."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile

from ipu_tf.compat.later_finders import call_around, later_spec

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""The least severe kind of messages that TensorFlow prints: 0 for all, 3 for fatal errors alone."""

_FATAL = "3"

_LINES = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog|To enable the following instructions:"
    rb"|I\d{4} .* (port|cudart_stub|cpu_feature_guard)\.cc:\d+\]"
)
"""Lines that TensorFlow prints while it is imported, before it reads the level."""


class _Hook:
    """Imports TensorFlow without these lines."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "tensorflow":
            return None
        spec = later_spec(cls, name, path, target)
        if spec is not None:
            call_around(spec, without_startup_lines)
        return spec


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Lets TensorFlow start without a word; TF_CPP_MIN_LOG_LEVEL=0 in the environment shows all."""
    if _Hook in sys.meta_path or os.environ.get(_LEVEL) == "0":
        yield
        return
    was_set = _LEVEL in os.environ
    os.environ.setdefault(_LEVEL, _FATAL)
    sys.meta_path.insert(0, _Hook)
    try:
        yield
    finally:
        sys.meta_path.remove(_Hook)
        if not was_set:
            os.environ.pop(_LEVEL, None)


def without_startup_lines(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Executes a module; what it prints as errors follows, without the lines of a start."""
    sys.stderr.flush()
    try:
        error_output = os.dup(2)
    except OSError:  # It is closed: nobody sees the lines.
        execute(module)
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            execute(module)
        finally:
            sys.stderr.flush()
            os.dup2(error_output, 2)
            os.close(error_output)
            file.seek(0)
            for line in file:
                if not _LINES.match(line):
                    os.write(2, line)
