"""The file that makes every Python of an environment know the vendor's module names."""

from __future__ import annotations

import sysconfig
from pathlib import Path

_NAME = "ipu_tf_compat.pth"
# Python executes a line of such a file that begins with "import". It goes on where this package has
# been removed since, and in a Python that must not know of it.
_LINE = (
    "import sys; exec('try:\\n import ipu_tf.compat\\nexcept ImportError: pass\\n"
    "else: ipu_tf.compat.install({argument})')\n"
)
_LINES = {keras: _LINE.format(argument=one) for keras, one in ((2, ""), (3, "keras=3"))}
"""The line by the Keras that scripts get."""


def path() -> Path:
    """Returns the file's path in this Python's environment."""
    return Path(sysconfig.get_path("purelib")) / _NAME


def enable(keras: int = 2) -> Path:
    """Writes the file and returns its path.

    Args:
        keras: As of `install`.

    Raises:
        FileExistsError: A file of that name with another content is there.
        OSError: The folder cannot be written.
    """
    _check_is_ours()
    write_to(path().parent, keras)
    return path()


def write_to(folder: Path, keras: int = 2) -> None:
    """Writes the file into a folder of `.pth` files."""
    (folder / _NAME).write_text(_LINES[keras])


def disable() -> Path | None:
    """Removes the file and returns its path, or None if there is none.

    Raises:
        FileExistsError: A file of that name with another content is there.
        OSError: The folder cannot be written.
    """
    if not path().exists():
        return None
    _check_is_ours()
    path().unlink()
    return path()


def _check_is_ours() -> None:
    if path().exists() and path().read_text() not in _LINES.values():
        raise FileExistsError(
            f"{path()} holds something else than ipu_tf writes. Look at it, and remove it yourself."
        )
